//! Installed libsrtp2, loaded at run time, as a reference for Ringway's SRTP.
//!
//! The workspace builds without it. Structures and constants are those of libsrtp 2.x (`srtp.h`, `crypto_types.h`),
//! whose binary interface is that of `libsrtp2.so.1`.
#![allow(unsafe_code)]

use anyhow::{Result, anyhow, bail};
use ringway_sdp::{CryptoSuite, MasterKey};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr;
use std::sync::OnceLock;

/// File name for the dynamic linker.
const SONAME: &str = "libsrtp2.so.1";

/// Free bytes needed behind a packet: `SRTP_MAX_TRAILER_LEN`, and the index of SRTCP.
pub(crate) const ROOM_BYTES: usize = 16 + 128 + 4;

/// The library, loaded and initialised; it stays loaded for the life of the process.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    create: unsafe extern "C" fn(*mut *mut c_void, *const Policy) -> c_int,
    dealloc: unsafe extern "C" fn(*mut c_void) -> c_int,
    calls: [Call; 4],
    version: unsafe extern "C" fn() -> *const c_char,
}

type Call = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int) -> c_int;

impl Library {
    /// Loads the library; `LD_LIBRARY_PATH` can select another one. `None` if it is not installed.
    ///
    /// # Errors
    /// A function is missing, or the library does not initialise.
    pub(crate) fn load() -> Result<Option<Self>> {
        // srtp_init works once in a process.
        static LOADED: OnceLock<Result<Option<Library>, String>> = OnceLock::new();
        let loaded = LOADED.get_or_init(|| Self::load_once().map_err(|error| format!("{error:#}")));
        loaded.clone().map_err(|error| anyhow!(error))
    }

    fn load_once() -> Result<Option<Self>> {
        // SAFETY: the library's constructors are trusted like those of any installed library.
        let Ok(library) = (unsafe { libloading::Library::new(SONAME) }) else { return Ok(None) };
        // The functions are called without the handle, so the library is never unloaded.
        let library = Box::leak(Box::new(library));
        // SAFETY: each function has the type that srtp.h of libsrtp 2 declares, by which the fields are
        // typed.
        let (functions, init) = unsafe {
            let functions = Self {
                create: *library.get("srtp_create")?,
                dealloc: *library.get("srtp_dealloc")?,
                calls: [
                    *library.get("srtp_protect")?,
                    *library.get("srtp_unprotect")?,
                    *library.get("srtp_protect_rtcp")?,
                    *library.get("srtp_unprotect_rtcp")?,
                ],
                version: *library.get("srtp_get_version_string")?,
            };
            (functions, library.get::<unsafe extern "C" fn() -> c_int>("srtp_init")?)
        };
        // SAFETY: the function is called once, before any other of the library.
        match unsafe { init() } {
            0 => Ok(Some(functions)),
            status => bail!("{SONAME}: srtp_init failed with {status}"),
        }
    }

    /// Version, and the library that provides its ciphers.
    pub(crate) fn description(&self) -> String {
        // SAFETY: the function returns a string constant of the library, which stays loaded.
        let version = unsafe { CStr::from_ptr((self.version)()) }.to_string_lossy();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let backend = [("libnss3", "NSS"), ("libcrypto", "OpenSSL"), ("libmbedcrypto", "mbed TLS")]
            .into_iter()
            .find_map(|(file, name)| maps.contains(file).then_some(name))
            .unwrap_or("its own ciphers");
        format!("{version} with {backend}")
    }

    /// Creates a session that protects sent packets or unprotects received ones, for any SSRC.
    ///
    /// # Errors
    /// The library was built without the suite.
    pub(crate) fn session(&self, suite: CryptoSuite, key: &MasterKey, side: Side) -> Result<Session> {
        let rtp = CryptoPolicy::new(suite, c_int::from(suite.tag_bits() / 8));
        // RFC 3711 §5.2: the tag of SRTCP is not shortened.
        let rtcp = CryptoPolicy::new(suite, if suite.is_aead() { 16 } else { 10 });
        let mut joined = [key.key.as_slice(), key.salt.as_slice()].concat();
        let policy = Policy {
            ssrc_type: match side {
                Side::Receiver => 2,
                Side::Sender => 3,
            },
            ssrc: 0,
            rtp,
            rtcp,
            key: joined.as_mut_ptr(),
            keys: ptr::null_mut(),
            num_master_keys: 0,
            deprecated_ekt: ptr::null_mut(),
            window_size: 64,
            allow_repeat_tx: 0,
            enc_xtn_hdr: ptr::null_mut(),
            enc_xtn_hdr_count: 0,
            next: ptr::null(),
        };
        let mut session = ptr::null_mut();
        // SAFETY: the policy has the layout of srtp.h. It and the key, whose length is cipher_key_len, live
        // through the call, which copies what it needs.
        match unsafe { (self.create)(&raw mut session, &raw const policy) } {
            0 => Ok(Session { library: *self, session }),
            status => bail!("libsrtp2 creates no session for {}: status {status}", suite.name()),
        }
    }
}

/// Direction of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Sender,
    Receiver,
}

/// A context of libsrtp.
pub(crate) struct Session {
    library: Library,
    session: *mut c_void,
}

impl Session {
    /// Protects the RTP packet in the first `len` bytes; returns its new length.
    ///
    /// # Errors
    /// The library's status, or a buffer that is not aligned to 4 bytes or without [`ROOM_BYTES`] behind the
    /// packet.
    pub(crate) fn protect_rtp(&mut self, buffer: &mut [u8], len: usize) -> Result<usize> {
        self.call(0, buffer, len, ROOM_BYTES)
    }

    /// Authenticates and decrypts the SRTP packet in the first `len` bytes; returns the length of the RTP
    /// packet.
    ///
    /// # Errors
    /// The library's status, or a buffer that is too short or not aligned to 4 bytes.
    pub(crate) fn unprotect_rtp(&mut self, buffer: &mut [u8], len: usize) -> Result<usize> {
        self.call(1, buffer, len, 0)
    }

    /// Protects the RTCP packet in the first `len` bytes; returns its new length.
    ///
    /// # Errors
    /// Same as [`Self::protect_rtp`].
    pub(crate) fn protect_rtcp(&mut self, buffer: &mut [u8], len: usize) -> Result<usize> {
        self.call(2, buffer, len, ROOM_BYTES)
    }

    /// Authenticates and decrypts the SRTCP packet in the first `len` bytes; returns the length of the RTCP
    /// packet.
    ///
    /// # Errors
    /// Same as [`Self::unprotect_rtp`].
    pub(crate) fn unprotect_rtcp(&mut self, buffer: &mut [u8], len: usize) -> Result<usize> {
        self.call(3, buffer, len, 0)
    }

    /// Calls a function that needs `room` bytes behind the packet.
    fn call(&mut self, which: usize, buffer: &mut [u8], len: usize, room: usize) -> Result<usize> {
        let call = self.library.calls.get(which).ok_or_else(|| anyhow!("no such call"))?;
        let is_aligned = buffer.as_ptr().addr().is_multiple_of(4);
        if !is_aligned || buffer.len() < len.saturating_add(room) {
            bail!("libsrtp2 needs {room} bytes behind a packet that is aligned to 4 bytes");
        }
        let mut length = c_int::try_from(len)?;
        // SAFETY: the session lives; the buffer is aligned, and long enough for what the call writes behind the packet.
        match unsafe { call(self.session, buffer.as_mut_ptr().cast(), &raw mut length) } {
            0 => Ok(usize::try_from(length)?),
            status => bail!("libsrtp2: status {status}"),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the session was made by this library and is not used again.
        unsafe { (self.library.dealloc)(self.session) };
    }
}

/// `srtp_crypto_policy_t`.
#[repr(C)]
struct CryptoPolicy {
    cipher_type: u32,
    cipher_key_len: c_int,
    auth_type: u32,
    auth_key_len: c_int,
    auth_tag_len: c_int,
    sec_serv: c_uint,
}

impl CryptoPolicy {
    /// Written out, because not every build exports a function for every suite.
    fn new(suite: CryptoSuite, auth_tag_len: c_int) -> Self {
        let cipher_type = match (suite.is_aead(), suite.key_bytes()) {
            (false, 16) => 1,
            (false, 24) => 4,
            (false, _) => 5,
            (true, 16) => 6,
            (true, _) => 7,
        };
        let (auth_type, auth_key_len) = if suite.is_aead() { (0, 0) } else { (3, 20) };
        Self {
            cipher_type,
            // Key and salt have at most 46 bytes together.
            cipher_key_len: (suite.key_bytes() + suite.salt_bytes()) as c_int,
            auth_type,
            auth_key_len,
            auth_tag_len,
            // sec_serv_conf_and_auth
            sec_serv: 3,
        }
    }
}

/// `srtp_policy_t`.
#[repr(C)]
struct Policy {
    ssrc_type: c_uint,
    ssrc: c_uint,
    rtp: CryptoPolicy,
    rtcp: CryptoPolicy,
    key: *mut u8,
    keys: *mut c_void,
    num_master_keys: c_ulong,
    deprecated_ekt: *mut c_void,
    window_size: c_ulong,
    allow_repeat_tx: c_int,
    enc_xtn_hdr: *mut c_int,
    enc_xtn_hdr_count: c_int,
    next: *const Policy,
}
