//! A program that is built without the feature `ice`: credentials cannot exist, so that nothing of ICE is in it.

use crate::{Attribute, MediaDescription, SessionDescription};
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::Entropy;

/// Credentials of ICE; there are none without the feature `ice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IceCredentials {}

/// Negotiated ICE; it is never negotiated without the feature `ice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IceParams {}

#[derive(Clone, Debug, Default)]
pub(crate) struct LocalIce {}

impl LocalIce {
    pub(crate) const fn offer(
        &self,
        _: &mut Entropy,
        _: SocketAddr,
        _: &mut MediaDescription,
    ) -> Vec<Attribute> {
        Vec::new()
    }

    pub(crate) const fn answer(
        &self,
        _: &mut Entropy,
        _: Option<&IceParams>,
        remote: IceCredentials,
    ) -> IceParams {
        match remote {}
    }

    pub(crate) const fn answered(&self, _: Option<IceCredentials>) -> Option<IceParams> {
        None
    }
}

pub(crate) const fn answer_attributes(
    params: &IceParams,
    _: SocketAddr,
    _: &SessionDescription,
    _: &MediaDescription,
    _: &mut MediaDescription,
) -> Vec<Attribute> {
    match *params {}
}

pub(crate) const fn credentials(_: &SessionDescription, _: &MediaDescription) -> Option<IceCredentials> {
    None
}
