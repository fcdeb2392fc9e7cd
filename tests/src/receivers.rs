//! A mail server and a web server on this machine that remember what they are sent. They end with the test.
//!
//! Invariant: what is remembered was taken: the sender got the answer that says so, or could have.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What a server took.
type Taken<T> = Arc<Mutex<Vec<T>>>;

/// A request of a webhook.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its headers, a line each.
    pub headers: Vec<String>,
    /// Its body.
    pub body: String,
}

impl Request {
    /// The value of a header.
    ///
    /// # Panics
    /// If it is not there.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        });
        found.unwrap_or_else(|| panic!("no header {name} in {:?}", self.headers))
    }
}

/// A server that is up until it is dropped.
pub struct Receiver<T> {
    port: u16,
    taken: Taken<T>,
    stopping: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl<T: Clone + Send + 'static> Receiver<T> {
    fn start(port: u16, serve: fn(TcpStream, &Taken<T>) -> std::io::Result<()>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port can be had");
        let port = listener.local_addr().expect("a socket has an address").port();
        let (taken, stopping) = (Taken::default(), Arc::new(AtomicBool::new(false)));
        let (into, ends) = (taken.clone(), stopping.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let into = into.clone();
                std::thread::spawn(move || serve(stream, &into));
            }
        });
        Self { port, taken, stopping, thread: Some(thread) }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it took so far.
    pub fn taken(&self) -> Vec<T> {
        self.taken.lock().expect("no server panics").clone()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A web server on `port`, or on any if that is 0.
pub fn web(port: u16) -> Receiver<Request> {
    Receiver::start(port, |stream, taken| {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut headers = Vec::new();
        let mut first = String::new();
        reader.read_line(&mut first)?;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? <= 2 {
                break;
            }
            headers.push(line.trim_end().to_owned());
        }
        let request = Request { headers, body: String::new() };
        let mut body = vec![0; request.header("content-length").parse().unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        taken.lock().expect("no server panics").push(Request { body, ..request });
        (&stream).write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
    })
}

/// A mail server without encryption on `port`, or on any if that is 0. It remembers the mails' sources.
pub fn mail(port: u16) -> Receiver<String> {
    Receiver::start(port, |stream, taken| {
        let mut reader = BufReader::new(stream.try_clone()?);
        let say = |text: &str| (&stream).write_all(format!("{text}\r\n").as_bytes());
        say("220 test")?;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            match line.get(..4).unwrap_or_default().to_ascii_uppercase().as_str() {
                "EHLO" => say("250 test")?,
                "DATA" => {
                    say("354 go on")?;
                    let mut mail = String::new();
                    loop {
                        let mut line = String::new();
                        if reader.read_line(&mut line)? == 0 || line == ".\r\n" {
                            break;
                        }
                        mail += &line;
                    }
                    taken.lock().expect("no server panics").push(mail);
                    say("250 taken")?;
                }
                "QUIT" => return say("221 bye"),
                _ => say("250 fine")?,
            }
        }
    })
}
