//! Actions and jumps of the steps of an attempt.

use super::{Action, Generator};
use crate::Outcome;
use crate::attempt::Filling;
use crate::script::{Jump, ScriptAction, VALUES_BYTES_MAX};
use crate::template::Text;
use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sansio::Context;
use ringway_transaction::SlabKey;

impl Generator {
    /// Does the actions of a step and goes to the next one. `message` was received by the step. False: the step was optional, and
    /// the attempt stays where it is.
    pub(super) fn pass(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        step: usize,
        message: Option<&[u8]>,
        is_optional: bool,
    ) -> Result<bool, Outcome> {
        if self.config.scenario.script(step).is_some_and(|script| !script.actions.is_empty()) {
            let scenario = Arc::clone(&self.config.scenario);
            for action in scenario.script(step).iter().flat_map(|script| &script.actions) {
                self.act(cx, key, action, message)?;
            }
        }
        Ok(self.follow(key, step, is_optional))
    }

    /// True if the condition of a step holds.
    pub(super) fn is_wanted(&self, key: SlabKey, step: usize) -> bool {
        let condition = self.config.scenario.script(step).and_then(|script| script.condition);
        let attempt = self.attempts.get(key);
        condition
            .zip(attempt)
            .is_none_or(|((variable, is_set), attempt)| attempt.values.is_set(variable) == is_set)
    }

    /// Goes to the step after `step`: that of its jump, or the next one. False as in [`Generator::pass`].
    pub(super) fn follow(&mut self, key: SlabKey, step: usize, is_optional: bool) -> bool {
        let Some(attempt) = self.attempts.get_mut(key) else { return false };
        let jump = self.config.scenario.script(step).and_then(|script| script.next);
        let jump = jump.filter(|jump| jump.test.is_none_or(|variable| attempt.values.is_set(variable)));
        let jump = jump.filter(|jump| {
            jump.random_ppm >= Jump::ALWAYS_PPM
                || self.rng.below(u64::from(Jump::ALWAYS_PPM)) < u64::from(jump.random_ppm)
        });
        attempt.step = match jump {
            Some(jump) => jump.to,
            None if is_optional => return false,
            None => step + 1,
        };
        true
    }

    fn act(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        action: &ScriptAction,
        message: Option<&[u8]>,
    ) -> Result<(), Outcome> {
        let (to, text) = match action {
            ScriptAction::Text(to, text) => (Some((*to, None)), text),
            ScriptAction::CompareText(to, left, text) => (Some((*to, Some(*left))), text),
            ScriptAction::Log(text) | ScriptAction::Warning(text) => (None, text),
            ScriptAction::Play(recording) => {
                self.play(cx, key, recording);
                return Ok(());
            }
            ScriptAction::Search(_)
            | ScriptAction::Number(..)
            | ScriptAction::Calculate(..)
            | ScriptAction::ToNumber(..)
            | ScriptAction::Test(..) => {
                let Some(attempt) = self.attempts.get_mut(key) else { return Ok(()) };
                return attempt.values.apply(action, message);
            }
        };
        let text = self.written(key, text);
        if text.len() > VALUES_BYTES_MAX {
            return Err(Outcome::TooLong);
        }
        let Some(attempt) = self.attempts.get_mut(key) else { return Ok(()) };
        match to {
            Some((to, None)) => attempt.values.set_text(to, &text),
            Some((to, Some(left))) => attempt.values.compare_text(to, left, &text),
            None => {
                let is_warning = matches!(action, ScriptAction::Warning(_));
                cx.emit(Action::Log { attempt: attempt.number, is_warning, text });
                Ok(())
            }
        }
    }

    /// Text with the values of its keywords.
    fn written(&self, key: SlabKey, text: &Text) -> Vec<u8> {
        let Some(attempt) = self.attempts.get(key) else { return Vec::new() };
        let filling = Filling {
            config: &self.config,
            locals: &self.locals,
            run: self.run,
            key,
            attempt,
            user_cseq: self.users.get(attempt.user as usize).map_or(0, |user| user.cseq),
            random: 0,
            media_seed: &self.media_seed,
        };
        text.written(&mut |keyword, out| filling.fill(keyword, b"", 0, out))
    }
}
