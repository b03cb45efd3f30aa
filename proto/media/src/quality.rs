//! Call quality by the E-model (ITU-T G.107), in the form used for packet networks.

use ringway_sdp::Codec;

/// Input of the rating.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairments {
    /// Codec of the stream.
    pub codec: Codec,
    /// Share of packets that were lost or arrived too late, 0 to 1 of those expected.
    pub loss: f64,
    /// Burst ratio (G.107 §7.3): mean length of a loss burst divided by that of random loss at this rate. 1
    /// is random; more is bursty.
    pub burst_ratio: f64,
    /// One-way mouth-to-ear delay in milliseconds.
    pub delay_ms: f64,
}

/// Transmission rating factor R, 0 to 100; [`R_BEST`] without impairments.
pub fn rating(impairments: &Impairments) -> f64 {
    let delay = impairments.delay_ms.max(0.0);
    // Delay has little effect up to 177.3 ms, where it starts to disturb turn-taking.
    let delay_impairment = 0.024 * delay + 0.11 * (delay - 177.3).max(0.0);
    let (equipment, robustness) = equipment(impairments.codec);
    let loss_percent = 100.0 * impairments.loss.clamp(0.0, 1.0);
    let burst_ratio = impairments.burst_ratio.clamp(1.0, BURST_RATIO_MAX);
    // G.107 §7.3: Ie,eff = Ie + (95 - Ie) · Ppl / (Ppl / BurstR + Bpl).
    let effective = equipment + (95.0 - equipment) * loss_percent / (loss_percent / burst_ratio + robustness);
    (R_BEST - delay_impairment - effective).clamp(0.0, 100.0)
}

/// Mean opinion score of a rating, 1 (bad) to 4.5 (G.107 Annex B).
pub fn mean_opinion_score(rating: f64) -> f64 {
    match rating {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        // Between 0 and 6.5 the polynomial is below its lower end.
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}

/// Burst ratio: mean length of the loss bursts divided by that of random loss at the same rate, at least 1.
pub fn burst_ratio(lost: u64, bursts: u64, expected: u64) -> f64 {
    if lost == 0 || bursts == 0 || expected <= lost {
        return 1.0;
    }
    let mean_burst = lost as f64 / bursts as f64;
    let loss = lost as f64 / expected as f64;
    (mean_burst * (1.0 - loss)).clamp(1.0, BURST_RATIO_MAX)
}

/// Impairment of the equipment Ie and packet-loss robustness Bpl (G.113 Appendix I), with lost packets concealed by a
/// repeated wave form (G.711 Appendix I, or equivalent).
const fn equipment(codec: Codec) -> (f64, f64) {
    match codec {
        Codec::Pcmu | Codec::Pcma => (0.0, 25.1),
    }
}

/// R of a narrow-band call with the default values of G.107; its MOS is 4.41.
pub const R_BEST: f64 = 93.2;
/// Limit of the validated range of the formula.
const BURST_RATIO_MAX: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn score(loss: f64, burst_ratio: f64, delay_ms: f64) -> f64 {
        let impairments = Impairments { codec: Codec::Pcmu, loss, burst_ratio, delay_ms };
        mean_opinion_score(rating(&impairments))
    }

    #[test]
    fn no_loss_and_no_delay_give_the_maximum() {
        assert_eq!((score(0.0, 1.0, 0.0) * 100.0).round(), 441.0);
    }

    /// 5 % random loss: Ie,eff = 95 · 5 / (5 + 25.1) = 15.78, R = 77.42. 300 ms of delay: Id = 7.2 + 13.5 = 20.7, R = 72.5.
    #[test]
    fn it_agrees_with_the_formula_computed_by_hand() {
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 0.01, "{value} {expected}");
        near(score(0.05, 1.0, 0.0), mean_opinion_score(77.419));
        near(score(0.0, 1.0, 300.0), mean_opinion_score(72.503));
        near(mean_opinion_score(77.419), 3.92);
        near(mean_opinion_score(42.125), 2.17);
    }

    #[test]
    fn more_impairment_is_never_better_and_the_score_is_in_range() {
        let mut last = 5.0;
        for percent in 0..=100 {
            let now = score(f64::from(percent) / 100.0, 1.0, 20.0);
            assert!(now <= last && (1.0..=4.5).contains(&now), "{percent} %: {now}");
            last = now;
        }
        assert!(score(0.05, 3.0, 0.0) < score(0.05, 1.0, 0.0));
        assert!(score(0.0, 1.0, 1e9) >= 1.0);
        assert!(score(f64::INFINITY, f64::INFINITY, f64::INFINITY) >= 1.0);
    }

    #[test]
    fn bursts_are_compared_with_random_loss() {
        assert_eq!(burst_ratio(0, 0, 100), 1.0);
        assert_eq!(burst_ratio(10, 10, 100), 1.0);
        assert!((burst_ratio(10, 2, 100) - 4.5).abs() < 1e-9);
    }
}
