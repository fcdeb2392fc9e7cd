//! A server of a protocol that gives back what it is sent: who is let in, who is listed, and how it ends.

use std::io::{IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use futures_util::future::{Either, select};
use holdfast_device::reactor::{self, ReactorHandle, ReactorSettings};
use holdfast_harness::wait_until;
use holdfast_listener::{Accepted, Address, Handler, ListenError, ListenSettings, Receiver, Sender, Server, TlsPolicy};
use socket2::{Domain, Socket, Type};

struct Echo;

impl Handler for Echo {
    const PROTOCOL: &'static str = "echo";

    async fn serve(self: Arc<Self>, accepted: Accepted) {
        let Accepted { stream, admission, encryption } = accepted;
        assert_eq!(encryption.policy(), TlsPolicy::Absent);
        let (read, write) = stream.split();
        let (mut receiver, mut sender) = (Receiver::Plain(read), Sender::Plain(write));
        let tracked = admission.tracked();
        loop {
            let mut bytes = [0; 64];
            let count = {
                let mut spaces = [IoSliceMut::new(&mut bytes)];
                let received = Box::pin(receiver.recv_vectored(&mut spaces));
                match select(received, tracked.stop.wait()).await {
                    Either::Left((Ok(count), _)) if count > 0 => count,
                    _ => return,
                }
            };
            if !admission.settle() {
                return;
            }
            tracked.count_read(count as u64);
            sender.send_all(&bytes[..count]).await.unwrap();
        }
    }
}

/// Listens on a unix socket and on any address of IPv4.
fn start(connections: usize) -> (Vec<ReactorHandle>, Server) {
    let reactors: Vec<_> = (0..2).map(|_| reactor::start(ReactorSettings::default()).unwrap()).collect();
    let path = std::env::temp_dir().join(format!("holdfast-listener-{}-{connections}.sock", std::process::id()));
    let addresses = [Address::Unix(path), "tcp:0.0.0.0:0".parse().unwrap()];
    let settings = ListenSettings { connections, ..ListenSettings::default() };
    let server = Server::start(reactors.clone(), Arc::new(Echo), &addresses, &settings).unwrap();
    (reactors, server)
}

trait Wire: Read + Write {
    fn finish(&self);
}

impl Wire for UnixStream {
    fn finish(&self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

impl Wire for TcpStream {
    fn finish(&self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

fn connect(address: &Address) -> Box<dyn Wire> {
    match address {
        Address::Unix(path) => Box::new(UnixStream::connect(path).unwrap()),
        Address::Tcp(address) => Box::new(TcpStream::connect(address).unwrap()),
    }
}

/// From an address of this machine to the port of `address`.
fn connect_from(from: [u8; 4], address: &Address) -> TcpStream {
    let Address::Tcp(address) = address else { panic!("an address of TCP") };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&SocketAddr::from(([127, 0, 0, 1], address.port())).into()).unwrap();
    socket.into()
}

fn echoed(wire: &mut dyn Wire, text: &[u8]) {
    wire.write_all(text).unwrap();
    let mut back = vec![0; text.len()];
    wire.read_exact(&mut back).unwrap();
    assert_eq!(back, text);
}

fn ended(wire: &mut dyn Wire) -> bool {
    // A connection that was refused may be reset.
    wire.read(&mut [0; 8]).map_or(true, |count| count == 0)
}

#[test]
fn clients_are_served_listed_limited_and_turned_away_at_the_end() {
    let (reactors, server) = start(2);
    let [unix, tcp] = server.addresses() else { panic!("two addresses") };
    let (unix, tcp) = (unix.clone(), tcp.clone());
    let mut one = connect(&unix);
    echoed(&mut *one, b"one");
    let mut other = connect(&tcp);
    echoed(&mut *other, b"the other");
    let read = server.connections().iter().map(|connection| connection.read_bytes).collect::<Vec<_>>();
    assert_eq!(read, [3, 9]);
    assert!(ended(&mut *connect(&tcp)), "a third is one too many");
    one.finish();
    assert!(ended(&mut *one));
    wait_until("one has left", || server.connections().len() == 1);
    let mut third = connect(&unix);
    echoed(&mut *third, b"now there is room");
    reactors[0].call(move || server.shutdown()).wait().unwrap();
    assert!(ended(&mut *other) && ended(&mut *third));
    let Address::Unix(path) = unix else { panic!("a path") };
    assert!(UnixStream::connect(path).is_err());
    reactors.into_iter().for_each(ReactorHandle::stop);
}

/// Of 700 silent clients from one address or from four, some of which come anew all the time, none keeps anybody out.
#[test]
fn the_silent_keep_nobody_out() {
    for sources in [1, 4] {
        let (reactors, server) = start(64);
        let [_, tcp] = server.addresses() else { panic!("two addresses") };
        let mut logged_in = connect_from([127, 0, 0, 1], tcp);
        echoed(&mut logged_in, b"before");
        let mut silent: Vec<TcpStream> =
            (0..700_u32).map(|number| connect_from([127, 0, 0, 2 + (number % sources) as u8], tcp)).collect();
        for number in 0..20 {
            silent.push(connect_from([127, 0, 0, 2], tcp));
            let mut same = connect_from([127, 0, 0, 2], tcp);
            echoed(&mut same, b"a client beside them");
            let mut other = connect_from([127, 0, 0, 100 + number], tcp);
            echoed(&mut other, b"a client elsewhere");
        }
        echoed(&mut logged_in, b"still here");
        wait_until("as many as there may be", || server.crowding().connections <= 64);
        let (crowding, crowds) = (server.crowding(), server.crowds());
        assert!(crowding.waiting < 64 && crowding.dropped >= 650, "{crowding:?}");
        assert_eq!(crowds.len(), sources as usize, "{crowds:?}");
        assert!(crowds.iter().all(|crowd| crowd.dropped > 100 && crowd.source.to_string().starts_with("127.0.0.")));
        assert!(ended(&mut silent[0]), "the oldest left");
        drop(server);
        reactors.into_iter().for_each(ReactorHandle::stop);
    }
}

#[test]
fn where_all_are_logged_in_one_more_is_turned_away_and_the_silent_are_not_spared() {
    let (reactors, server) = start(5);
    let [unix, tcp] = server.addresses() else { panic!("two addresses") };
    let mut silent: Vec<TcpStream> = (0..3).map(|_| connect_from([127, 0, 0, 2], tcp)).collect();
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut client = connect(unix);
        echoed(&mut *client, b"a client");
        clients.push(client);
    }
    assert!(silent.iter_mut().all(|wire| ended(wire)));
    assert!(ended(&mut connect_from([127, 0, 0, 3], tcp)), "one too many");
    clients.iter_mut().for_each(|client| echoed(&mut **client, b"still here"));
    assert_eq!(server.crowding().waiting, 0);
    drop(server);
    reactors.into_iter().for_each(ReactorHandle::stop);
}

#[test]
fn what_cannot_be_listened_on_is_named_with_its_protocol() {
    let (reactors, server) = start(3);
    let again = Server::start(reactors.clone(), Arc::new(Echo), server.addresses(), &ListenSettings::default());
    let Err(error @ ListenError::Listen { .. }) = again else { panic!("an address was taken twice") };
    assert!(error.to_string().starts_with("echo: "), "{error}");
    let nothing = Server::start(reactors.clone(), Arc::new(Echo), &[], &ListenSettings::default());
    assert_eq!(nothing.err().unwrap().to_string(), "the echo server needs at least one address");
    drop(server);
    reactors.into_iter().for_each(ReactorHandle::stop);
}
