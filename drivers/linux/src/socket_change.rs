//! Sockets of listeners, and changes of its sockets that a worker is requested to make.

use crate::client::DatagramClient;
use ringway_sansio::{ListenerId, Transport};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// Socket of one worker for one listener.
#[derive(Debug)]
pub(crate) enum ListenSocket {
    Datagram(UdpSocket, Transport),
    Stream(TcpListener, Transport),
}

/// Change of a worker's listeners, or of the clients that it serves.
#[derive(Debug)]
pub(crate) enum SocketChange {
    /// Take the socket of a new listener, and do not read from it yet. The result is sent back.
    Add(ListenerId, ListenSocket, SyncSender<io::Result<()>>),
    /// Begin to read from it.
    Read(ListenerId),
    /// Close one that is not read from: nothing that has arrived is handled.
    Discard(ListenerId, SyncSender<io::Result<()>>),
    /// Handle what has arrived, and close it.
    Close(ListenerId, SyncSender<io::Result<()>>),
    /// Serve a client. The result is sent back.
    Watch(Arc<dyn DatagramClient>, SyncSender<io::Result<()>>),
    /// Serve a client no longer.
    Forget(Arc<dyn DatagramClient>),
}
