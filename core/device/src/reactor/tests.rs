//! The reactor against the real kernel.

use std::cell::{Cell, RefCell};
use std::io;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use holdfast_harness::{LIMIT, wait_until};

use super::net::{Listener, LocalAddress, Peer, Stream};
use super::*;

fn settings() -> ReactorSettings {
    ReactorSettings { name: "test".into(), ..ReactorSettings::default() }
}

fn socket_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("holdfast-{}-{name}.sock", std::process::id()))
}

/// Two ends of one connection, the second for this reactor.
fn pair() -> (UnixStream, Stream) {
    let (there, here) = UnixStream::pair().expect("a pair of sockets");
    (there, Stream::from_std(here).expect("a stream"))
}

#[test]
fn tasks_run_inline_until_they_wait() {
    block_on(settings(), async {
        let steps = Rc::new(RefCell::new(Vec::new()));
        let seen = steps.clone();
        let task = spawn_local(async move {
            seen.borrow_mut().push("first");
            yield_now().await;
            seen.borrow_mut().push("second");
            7
        });
        assert_eq!(*steps.borrow(), ["first"]);
        assert!(!task.is_finished());
        assert_eq!(task.await, 7);
        assert_eq!(*steps.borrow(), ["first", "second"]);
    })
    .expect("a reactor");
}

#[test]
fn dropped_handles_detach_and_aborted_tasks_are_dropped() {
    struct Flag(Rc<Cell<bool>>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    block_on(settings(), async {
        let (detached, aborted) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let flag = Flag(detached.clone());
        drop(spawn_local(async move {
            yield_now().await;
            drop(flag);
        }));
        let flag = Flag(aborted.clone());
        let task = spawn_local(async move {
            let _flag = flag;
            std::future::pending::<()>().await;
        });
        task.abort();
        yield_now().await;
        yield_now().await;
        assert!(detached.get() && aborted.get());
    })
    .expect("a reactor");
}

#[test]
fn timers_fire_in_order_and_leave_nothing_when_dropped() {
    block_on(settings(), async {
        let clock = clock();
        let start = clock.now();
        let order = Rc::new(RefCell::new(Vec::new()));
        let tasks: Vec<_> = [30u64, 10, 20]
            .map(|millis| {
                let (clock, order) = (clock.clone(), order.clone());
                spawn_local(async move {
                    clock.sleep(Duration::from_millis(millis)).await;
                    order.borrow_mut().push(millis);
                })
            })
            .into();
        let mut dropped = clock.sleep(Duration::from_secs(3600));
        futures_util::future::poll_immediate(&mut dropped).await;
        drop(dropped);
        for task in tasks {
            task.await;
        }
        assert_eq!(*order.borrow(), [10, 20, 30]);
        assert!(clock.now() - start >= Duration::from_millis(30));
        assert_eq!(with_core(|core| core.timers().borrow().next_deadline()), Some(None));
    })
    .expect("a reactor");
}

#[test]
fn calls_cross_threads_both_ways() {
    let reactor = start(settings()).expect("a reactor");
    let name = reactor.call(|| async { std::thread::current().name().map(String::from) }).wait();
    assert_eq!(name, Ok(Some("test".into())));
    let other = start(settings()).expect("a reactor");
    let asked = other.clone();
    let sum = reactor.call(move || async move {
        let mut sum = 0u32;
        for number in 0..1000 {
            let answer = asked.call(move || async move {
                let not_send = Rc::new(number);
                yield_now().await;
                *not_send
            });
            sum += answer.await.expect("the other runs");
        }
        sum
    });
    assert_eq!(sum.wait(), Ok(499_500));
    let count = Arc::new(AtomicU32::new(0));
    for _ in 0..100 {
        let count = count.clone();
        reactor.spawn(move || async move {
            yield_now().await;
            count.fetch_add(1, Ordering::SeqCst);
        });
    }
    reactor.call(|| async { clock().sleep(Duration::from_millis(5)).await }).wait().expect("it runs");
    assert_eq!(count.load(Ordering::SeqCst), 100);
    let gone = reactor.clone();
    reactor.stop();
    other.stop();
    assert_eq!(gone.call(|| async {}).wait(), Err(ReactorGone));
}

#[test]
fn calls_are_awaited_on_tokio_like_executors() {
    let reactor = start(settings()).expect("a reactor");
    let call = reactor.call(|| async {
        clock().sleep(Duration::from_millis(2)).await;
        5
    });
    let output = block_on(settings(), call).expect("a reactor");
    assert_eq!(output, Ok(5));
    reactor.stop();
}

#[test]
fn stopping_drops_waiting_tasks_on_their_own_thread() {
    struct Tell(Arc<AtomicU32>);
    impl Drop for Tell {
        fn drop(&mut self) {
            assert_eq!(std::thread::current().name(), Some("test"));
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let reactor = start(settings()).expect("a reactor");
    let dropped = Arc::new(AtomicU32::new(0));
    let (mut there, here) = UnixStream::pair().expect("a pair of sockets");
    let (on_timer, on_socket) = (Tell(dropped.clone()), Tell(dropped.clone()));
    reactor.spawn(move || async move {
        let _tell = on_timer;
        clock().sleep(Duration::from_secs(3600)).await;
    });
    reactor.spawn(move || async move {
        let _tell = on_socket;
        let mut stream = Stream::from_std(here).expect("a stream");
        let _ = stream.recv(&mut [0; 1]).await;
    });
    reactor.call(|| async {}).wait().expect("it runs");
    reactor.stop();
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
    assert_eq!(there.read(&mut [0; 1]).expect("the other end is closed"), 0);
}

#[test]
fn an_idle_reactor_sleeps() {
    let reactor = start(settings()).expect("a reactor");
    let (mut there, here) = UnixStream::pair().expect("a pair of sockets");
    reactor.spawn(move || async move {
        let mut stream = Stream::from_std(here).expect("a stream");
        let mut byte = [0; 1];
        while stream.recv(&mut byte).await.is_ok_and(|received| received == 1) {
            stream.send(&byte).await.expect("sent back");
        }
    });
    for _ in 0..1000 {
        there.write_all(&[1]).expect("sent");
        there.read_exact(&mut [0; 1]).expect("received");
    }
    std::thread::sleep(Duration::from_millis(50));
    let before = reactor.stats();
    std::thread::sleep(Duration::from_secs(1));
    let after = reactor.stats();
    assert!(after.loops - before.loops < 10, "{before:?} {after:?}");
    drop(there);
    reactor.stop();
}

#[test]
fn spinning_stops_when_waits_are_long() {
    let reactor = start(settings()).expect("a reactor");
    let (mut there, here) = UnixStream::pair().expect("a pair of sockets");
    reactor.spawn(move || async move {
        let mut stream = Stream::from_std(here).expect("a stream");
        while stream.recv(&mut [0; 1]).await.is_ok_and(|received| received == 1) {}
    });
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(5));
        there.write_all(&[1]).expect("sent");
    }
    std::thread::sleep(Duration::from_millis(5));
    let before = reactor.stats();
    for _ in 0..40 {
        there.write_all(&[1]).expect("sent");
        std::thread::sleep(Duration::from_millis(5));
    }
    let after = reactor.stats();
    assert!(after.spins - before.spins < 100, "{before:?} {after:?}");
    drop(there);
    reactor.stop();
}

#[test]
fn unix_listener_serves_many_connections_and_cleans_up() {
    let path = socket_path("many");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a stale socket"));
    let reactor = start(settings()).expect("a reactor");
    let at = path.clone();
    reactor
        .call(move || async move {
            let listener = Listener::bind_unix(&at, 0o600).expect("the stale socket is replaced");
            let taken = Listener::bind_unix(&at, 0o600).expect_err("somebody listens");
            assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
            spawn_local(async move {
                loop {
                    let stream = listener.accept().await.expect("accepted");
                    assert!(matches!(stream.peer().expect("a peer"), Peer::Unix { pid, .. } if pid == std::process::id() as i32));
                    spawn_local(echo(stream));
                }
            });
        })
        .wait()
        .expect("it runs");
    assert_eq!(std::fs::metadata(&path).expect("the socket").permissions().mode() & 0o777, 0o600);
    let clients: Vec<_> = (0..20u8)
        .map(|number| {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut client = UnixStream::connect(path).expect("connected");
                let sent: Vec<u8> = (0..100_000u32).map(|byte| byte as u8 ^ number).collect();
                let mut received = vec![0; sent.len()];
                let mut sender = client.try_clone().expect("a second descriptor");
                let payload = sent.clone();
                let sending = std::thread::spawn(move || sender.write_all(&payload).expect("sent"));
                client.read_exact(&mut received).expect("received");
                sending.join().expect("sent");
                assert!(received == sent);
            })
        })
        .collect();
    for client in clients {
        client.join().expect("served");
    }
    reactor.stop();
    assert!(!path.exists(), "the listener removes its path");
}

/// Sends back what comes, by two tasks on the halves.
async fn echo(stream: Stream) {
    let (mut read, mut write) = stream.split();
    let queue = Rc::new(RefCell::new(std::collections::VecDeque::new()));
    let filled = queue.clone();
    let receiver = spawn_local(async move {
        let mut buf = vec![0; 3000];
        loop {
            let (front, back) = buf.split_at_mut(1000);
            let parts = &mut [io::IoSliceMut::new(front), io::IoSliceMut::new(back)];
            match read.recv_vectored(parts).await {
                Ok(0) | Err(_) => return,
                Ok(received) => filled.borrow_mut().push_back(buf[..received].to_vec()),
            }
        }
    });
    loop {
        let Some(chunk) = queue.borrow_mut().pop_front() else {
            if receiver.is_finished() {
                return;
            }
            yield_now().await;
            continue;
        };
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let (front, back) = rest.split_at(rest.len() / 2);
            let sent = write.send_vectored(&[io::IoSlice::new(front), io::IoSlice::new(back)]).await;
            rest = &rest[sent.expect("sent")..];
        }
    }
}

#[test]
fn files_in_the_way_of_a_socket_are_kept() {
    let path = socket_path("file");
    std::fs::write(&path, "precious").expect("written");
    let refused = Listener::bind_unix(&path, 0o600).expect_err("a file is there");
    assert!(refused.to_string().contains("choose another path"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).expect("kept"), "precious");
    std::fs::remove_file(&path).expect("removed");
    let long = std::env::temp_dir().join("x".repeat(200));
    assert!(Listener::bind_unix(&long, 0o600).expect_err("too long").to_string().contains("at most"));
}

#[test]
fn tcp_connections_move_between_reactors() {
    let (accepting, serving) = (start(settings()).expect("a reactor"), start(settings()).expect("a reactor"));
    let target = serving.clone();
    let address = accepting
        .call(move || async move {
            let listener = Listener::bind_tcp("127.0.0.1:0".parse().expect("an address")).expect("a listener");
            let LocalAddress::Tcp(address) = *listener.local_address() else { panic!("TCP has addresses") };
            spawn_local(async move {
                loop {
                    let raw = listener.accept().await.expect("accepted").into_raw();
                    target.spawn(move || echo(Stream::from_raw(raw).expect("a stream")));
                }
            });
            address
        })
        .wait()
        .expect("it runs");
    for _ in 0..5 {
        let mut client = std::net::TcpStream::connect(address).expect("connected");
        client.write_all(b"hello").expect("sent");
        let mut received = [0; 5];
        client.read_exact(&mut received).expect("received");
        assert_eq!(&received, b"hello");
        client.shutdown(Shutdown::Write).expect("closed");
        assert_eq!(client.read(&mut received).expect("the end"), 0);
    }
    accepting.stop();
    serving.stop();
}

#[test]
fn a_dropped_stream_closes_at_once_even_after_waiting() {
    let reactor = start(ReactorSettings { spin: Duration::ZERO, ..settings() }).expect("a reactor");
    let (mut there, here) = UnixStream::pair().expect("a pair of sockets");
    reactor.spawn(move || async move {
        let mut stream = Stream::from_std(here).expect("a stream");
        let mut byte = [0; 1];
        let receive = std::pin::pin!(stream.recv(&mut byte));
        let timeout = clock().sleep(Duration::from_millis(20));
        let futures_util::future::Either::Right(_) = futures_util::future::select(receive, timeout).await else {
            panic!("nothing was sent");
        };
    });
    there.set_read_timeout(Some(LIMIT)).expect("a timeout");
    assert_eq!(there.read(&mut [0; 1]).expect("the end, not the timeout"), 0);
    reactor.stop();
}

#[test]
fn quick_wake_ups_are_asked_for_while_requests_follow_each_other_and_no_longer() {
    let path = std::env::temp_dir().join(format!("holdfast-wake-ups-{}", std::process::id()));
    std::fs::write(&path, []).expect("a file");
    let latency = Arc::new(CpuLatency::open_at(&path, Duration::ZERO).expect("opened"));
    std::fs::remove_file(&path).expect("removed");
    let spin = Duration::from_millis(10);
    let reactor = start(ReactorSettings { spin, cpu_latency: Some(latency.clone()), ..settings() }).expect("a reactor");
    let (mut there, here) = UnixStream::pair().expect("a pair of sockets");
    reactor.spawn(move || async move {
        let mut stream = Stream::from_std(here).expect("a stream");
        let mut byte = [0; 1];
        while stream.recv(&mut byte).await.is_ok_and(|received| received > 0) {
            stream.send(&byte).await.expect("sent");
        }
    });
    let begun = Instant::now();
    assert!(!latency.is_asked());
    while !latency.is_asked() {
        assert!(begun.elapsed() < LIMIT, "never asked");
        there.write_all(&[1]).expect("sent");
        there.read_exact(&mut [0; 1]).expect("received");
    }
    wait_until("it is taken back", || !latency.is_asked());
    reactor.stop();
}

#[test]
fn a_busy_task_does_not_starve_waiting_sockets() {
    block_on(settings(), async {
        let (mut there, mut here) = pair();
        let stop = Rc::new(Cell::new(false));
        let stopped = stop.clone();
        let busy = spawn_local(async move {
            while !stopped.get() {
                yield_now().await;
            }
        });
        let sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            there.write_all(&[9]).expect("sent");
            there
        });
        let mut byte = [0; 1];
        assert_eq!(here.recv(&mut byte).await.expect("received"), 1);
        stop.set(true);
        busy.await;
        sender.join().expect("sent");
    })
    .expect("a reactor");
}

#[test]
fn a_socket_that_always_has_data_lets_others_run() {
    block_on(settings(), async {
        let (there, mut here) = pair();
        let feeding = std::thread::spawn(move || {
            let mut there = there;
            while there.write_all(&[0; 65536]).is_ok() {}
        });
        let ended = Rc::new(Cell::new(false));
        let seen = ended.clone();
        let reader = spawn_local(async move {
            let mut buf = [0; 64];
            while !seen.get() {
                here.recv(&mut buf).await.expect("received");
            }
        });
        let start = Instant::now();
        clock().sleep(Duration::from_millis(20)).await;
        assert!(start.elapsed() < LIMIT);
        ended.set(true);
        reader.await;
        feeding.join().expect("the feeding ends with the socket");
    })
    .expect("a reactor");
}

#[test]
fn many_waiting_sockets_are_all_served() {
    block_on(settings(), async {
        let mut clients = Vec::new();
        let mut tasks = Vec::new();
        for number in 0..100u8 {
            let (there, mut here) = pair();
            clients.push(there);
            tasks.push(spawn_local(async move {
                let mut byte = [0; 1];
                here.recv(&mut byte).await.expect("received");
                assert_eq!(byte[0], number);
            }));
        }
        let sending = std::thread::spawn(move || {
            for (number, client) in clients.iter_mut().enumerate().rev() {
                client.write_all(&[number as u8]).expect("sent");
                std::thread::sleep(Duration::from_micros(50));
            }
            clients
        });
        for task in tasks {
            task.await;
        }
        sending.join().expect("sent");
    })
    .expect("a reactor");
}

#[test]
#[should_panic(expected = "in a task")]
fn panics_of_tasks_reach_the_caller_of_block_on() {
    let _ = block_on(settings(), async {
        spawn_local(async {
            yield_now().await;
            panic!("in a task");
        })
        .await
    });
}

#[test]
fn a_panic_on_a_reactor_of_its_own_thread_ends_the_process() {
    if std::env::var_os("HOLDFAST_TEST_PANIC").is_some() {
        let reactor = start(settings()).expect("a reactor");
        let _ = reactor.call(|| async { panic!("half dead") }).wait();
        std::thread::sleep(LIMIT);
        std::process::exit(0);
    }
    let output = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "reactor::tests::a_panic_on_a_reactor_of_its_own_thread_ends_the_process"])
        .env("HOLDFAST_TEST_PANIC", "1")
        .output()
        .expect("it ran");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("a task on reactor test panicked: half dead; the process ends"), "{text}");
}

#[test]
fn a_reactor_stops_under_endless_load() {
    let path = socket_path("load");
    crate::file::create(&path, 1 << 20).expect("created");
    let device = crate::file::FileDevice::open(&path, crate::file::FileOptions::default()).expect("opened");
    let reactor = start(settings()).expect("a reactor");
    let used = device.clone();
    reactor
        .call(move || async move {
            for number in 0..32u64 {
                let device = used.clone();
                spawn_local(async move {
                    loop {
                        let read = crate::Device::read(&*device, number * 4096, crate::IoBuf::new(4096));
                        read.await.expect("read");
                    }
                });
            }
            spawn_local(async {
                loop {
                    yield_now().await;
                }
            });
        })
        .wait()
        .expect("it runs");
    std::thread::sleep(Duration::from_millis(20));
    reactor.stop();
    assert!(device.counters().reads > 0);
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn messages_are_read_whole_into_parts_and_waited_for() {
    let (there, here) = std::os::unix::net::UnixDatagram::pair().expect("a pair of sockets");
    here.set_nonblocking(true).expect("nonblocking");
    block_on(settings(), async move {
        let device = Rc::new(message_device::MessageDevice::new(here.into()));
        there.send(b"head body").expect("sent");
        let (mut head, mut body) = ([0; 5], [0; 16]);
        let read = device.read_vectored(&mut [io::IoSliceMut::new(&mut head), io::IoSliceMut::new(&mut body)]).await;
        assert_eq!((read.expect("read"), &head, &body[..4]), (9, b"head ", &b"body"[..]));

        let reading = device.clone();
        let waits = spawn_local(async move {
            let mut bytes = [0; 16];
            let read = reading.read_vectored(&mut [io::IoSliceMut::new(&mut bytes)]).await.expect("read");
            bytes[..read].to_vec()
        });
        assert!(!waits.is_finished(), "nothing is there");
        clock().sleep(Duration::from_millis(5)).await;
        there.send(b"late").expect("sent");
        assert_eq!(waits.await, b"late");

        assert_eq!(
            device.write_vectored(&[io::IoSlice::new(b"an "), io::IoSlice::new(b"answer")]).expect("written"),
            9
        );
        let mut bytes = [0; 16];
        assert_eq!((there.recv(&mut bytes).expect("received"), &bytes[..9]), (9, &b"an answer"[..]));
    })
    .expect("a reactor");
}
