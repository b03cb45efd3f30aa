//! Random actions from few seeds; `cargo xtask sim` takes many.

use ringway_tests::RandomStory;

#[test]
fn random_actions_leave_no_state() {
    RandomStory::test("calls");
}

#[test]
fn random_actions_through_a_stateless_proxy() {
    RandomStory::test("stateless");
}

#[test]
fn random_actions_of_users_who_forward() {
    RandomStory::test("forwards");
}

#[test]
fn random_actions_between_restarts() {
    RandomStory::test("restarts");
}

#[test]
fn random_faults_of_nodes_and_their_store() {
    RandomStory::test("nodes");
}

#[test]
fn random_faults_with_nodes_that_hold_whom_they_serve() {
    RandomStory::test("nodes-served");
}
