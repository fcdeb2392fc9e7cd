//! Programs of their own that open, lock and close files, one line at a time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use holdfast_harness::LIMIT;

/// Each line is a call and its arguments; each is answered by one line: what came of it, or the name of the error.
const PROGRAM: &str = r"
import errno, fcntl, os, signal, struct, sys

files = {}
LOCK = 'hhxxxxqqixxxx'
KINDS = {'read': fcntl.F_RDLCK, 'write': fcntl.F_WRLCK, 'free': fcntl.F_UNLCK}
CALLS_OF = {'posix': (fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW), 'ofd': (36, 37, 38)}

def on_alarm(number, frame):
    raise OSError(errno.EINTR, 'alarm')

signal.signal(signal.SIGALRM, on_alarm)

def lock(by, name, kind, start, length, wait=''):
    command = CALLS_OF[by][2 if wait else 1]
    fcntl.fcntl(files[name], command, struct.pack(LOCK, KINDS[kind], 0, int(start), int(length), 0))

def test(by, name, kind, start, length):
    asked = struct.pack(LOCK, KINDS[kind], 0, int(start), int(length), 0)
    kind, _, start, length, process = struct.unpack(LOCK, fcntl.fcntl(files[name], CALLS_OF[by][0], asked))
    return 'free' if kind == fcntl.F_UNLCK else f'{kind} {start} {length} {process}'

def flock(name, how, wait=''):
    how = {'shared': fcntl.LOCK_SH, 'exclusive': fcntl.LOCK_EX, 'free': fcntl.LOCK_UN}[how]
    fcntl.flock(files[name], how | (0 if wait else fcntl.LOCK_NB))

def open_(name, path, flags='rw'):
    files[name] = os.open(path, {'r': os.O_RDONLY, 'w': os.O_WRONLY, 'rw': os.O_RDWR}[flags])

def dup(name, other):
    files[other] = os.dup(files[name])

def close(name):
    os.close(files.pop(name))

def fork():
    child = os.fork()
    if child == 0:
        signal.pause()
    return str(child)

def end(child):
    os.kill(int(child), signal.SIGKILL)
    os.waitpid(int(child), 0)

def read(name, at, length):
    return os.pread(files[name], int(length), int(at)).decode()

def write(name, at, text):
    os.pwrite(files[name], text.encode(), int(at))

def truncate(name, length):
    os.truncate(files.get(name, name), int(length))

def lease(name, kind):
    fcntl.fcntl(files[name], fcntl.F_SETLEASE, KINDS[kind])

def alarm(seconds):
    signal.setitimer(signal.ITIMER_REAL, float(seconds))

CALLS = dict(lock=lock, test=test, flock=flock, open=open_, dup=dup, close=close, read=read, write=write,
             truncate=truncate, lease=lease, alarm=alarm, fork=fork, end=end)
for line in sys.stdin:
    call, *arguments = line.split()
    try:
        print(CALLS[call](*arguments) or 'done', flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
";

/// What is not answered by then waits.
const SHORT: Duration = Duration::from_millis(60);

/// One of them, killed when it is dropped.
pub struct Program {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Program {
    pub fn start() -> Self {
        let mut command = Command::new("python3");
        let command = command.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python runs");
        let (sender, answers) = channel();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { input: child.stdin.take().expect("piped"), child, answers }
    }

    /// One that has a file open as `f`.
    pub fn with(path: &Path) -> Self {
        let mut program = Self::start();
        program.does(&format!("open f {}", path.display()));
        program
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it begin something.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("it reads");
    }

    /// What came of that.
    #[track_caller]
    pub fn answer(&mut self) -> String {
        self.answers.recv_timeout(LIMIT).expect("it answers")
    }

    /// Has it do something, and waits for the outcome.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer()
    }

    /// Has it do something that succeeds.
    #[track_caller]
    pub fn does(&mut self, line: &str) {
        assert_eq!(self.ask(line), "done", "{line}");
    }

    /// Asserts that what it was told to do is not done yet.
    #[track_caller]
    pub fn waits(&mut self) {
        let early = self.answers.recv_timeout(SHORT).ok();
        assert_eq!(early, None, "it waits");
    }

    /// Whether what it was told to do is done soon.
    pub fn has_answered(&mut self, within: Duration) -> bool {
        self.answers.recv_timeout(within).is_ok_and(|answer| answer == "done")
    }

    /// Kills it.
    pub fn kill(mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("killed");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
