//! The published vectors, from testdata/digest.tsv.

use super::*;

#[test]
fn every_vector_without_session_keys_is_proven() {
    extern crate std;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/digest.tsv");
    let table = std::fs::read_to_string(path).unwrap();
    let mut checked = 0;
    for row in table.lines().skip(1) {
        let cells: alloc::vec::Vec<&str> = row.split('\t').collect();
        let [_, algorithm, user, realm, password, method, uri, nonce, nc, cnonce, qop, body, response, ..] =
            cells[..]
        else {
            panic!("{row}")
        };
        let Some(algorithm) = Algorithm::from_name(algorithm.as_bytes()) else { continue };
        let body = body.replace("\\r\\n", "\r\n");
        let given = Credentials {
            username: user.as_bytes(),
            realm: realm.as_bytes(),
            nonce: nonce.as_bytes(),
            uri: uri.as_bytes(),
            response: response.as_bytes(),
            cnonce: Some(cnonce.as_bytes()),
            qop: Some(qop.as_bytes()).filter(|qop| !qop.is_empty()),
            nc: Some(nc.as_bytes()),
            ..Credentials::default()
        };
        let ha1 = Ha1::new(user.as_bytes(), realm.as_bytes(), password.as_bytes());
        assert!(algorithm.proves(&ha1, method.as_bytes(), body.as_bytes(), &given), "{row}");
        assert!(!algorithm.proves(&ha1, b"OTHER", body.as_bytes(), &given), "{row}");
        let covers_body = !algorithm.proves(&ha1, method.as_bytes(), b"another body", &given);
        assert_eq!(covers_body, qop == "auth-int", "{row}");
        checked += 1;
    }
    assert!(checked >= 14, "only {checked} vectors were there");
}
