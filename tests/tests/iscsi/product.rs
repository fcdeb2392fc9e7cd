//! A daemon that serves iSCSI at ports of its own, for a test.

use std::net::SocketAddr;

use holdfast_tests::daemon::Daemon;
use holdfast_tests::iscsi::cdb;
use holdfast_tests::iscsi::initiator::Session;
use holdfast_tests::iscsi::login::Login;
use holdfast_tests::iscsi::tools::Place;
use holdfast_tests::iscsi::wire::InitiatorError;
use holdfast_tests::load::Blocks;
use holdfast_tests::nbd::NbdError;
use holdfast_tests::ports::free_address;
use holdfast_tests::process::allocated_bytes;
use holdfast_tests::scene::Scene;

/// The name of the target that a test has.
pub const TARGET: &str = "iqn.2025-01.org.example:holdfast";

/// A daemon with the pool `tank` and the target `vm`. Dropped in this order.
pub struct Product {
    pub daemon: Daemon,
    pub scene: Scene,
    /// Where it serves iSCSI; the first is of the portal group 1, the next of 2.
    pub addresses: Vec<SocketAddr>,
}

impl Product {
    /// One with so many portals, whose target lets anybody in.
    pub fn open(portals: usize) -> Self {
        Self::with(&(0..portals).map(|_| free_address()).collect::<Vec<_>>(), &[], &["--open"])
    }

    /// One that serves at `addresses`, with options of `serve` and of `target create`.
    pub fn with(addresses: &[SocketAddr], serving: &[&str], options: &[&str]) -> Self {
        let scene = Scene::new();
        let listen: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        let listen = listen.iter().flat_map(|address| ["--iscsi", address.as_str()]);
        let daemon = Daemon::start_with(&scene, "a", &listen.chain(serving.iter().copied()).collect::<Vec<_>>());
        daemon.pool(&scene, "tank", 4, "512MiB");
        daemon.please(&[&["target", "create", "vm", "--iqn", TARGET], options].concat());
        if addresses.len() > 1 {
            for (address, group) in addresses.iter().zip(1..) {
                let group = i32::to_string(&group);
                daemon.please(&["target", "portal", "add", "vm", &address.to_string(), "--group", &group]);
            }
        }
        Self { daemon, scene, addresses: addresses.to_vec() }
    }

    /// Makes the space `tank/NAME` with these options, and a LUN of it.
    #[track_caller]
    pub fn lun(&self, name: &str, number: u16, options: &[&str]) {
        let space = format!("tank/{name}");
        self.daemon.please(&[&["space", "create", &space], options].concat());
        self.daemon.please(&["lun", "add", "vm", &space, "--lun", &number.to_string()]);
    }

    /// A LUN 0 of so many MiB, thin and with two copies.
    #[track_caller]
    pub fn unit(&self, mib: u64) {
        self.lun("unit", 0, &["--layout", "mirror", "--thin", "--size", &format!("{mib}MiB")]);
    }

    /// A login to it that proves nothing.
    pub fn login(&self) -> Login {
        Login::new(self.addresses[0], TARGET)
    }

    /// A session through the port `number` of the initiator, with LUN 0 ready.
    #[track_caller]
    pub fn session(&self, number: u16) -> Session {
        Session::of(&self.login().port(number), &[0])
    }

    /// LUN 0 as others name it.
    pub fn place(&self) -> Place {
        Place::new(self.addresses[0], TARGET, 0)
    }

    /// A file with `secret` in it, for commands that want one.
    pub fn secret(&self, secret: &str) -> String {
        let path = self.scene.path(&format!("secret-{}", secret.len()));
        std::fs::write(&path, format!("{secret}\n")).expect("a file can be written");
        path
    }

    /// Memory that the daemon allocated, in MiB.
    pub fn memory(&self) -> u64 {
        allocated_bytes(self.daemon.pid()) >> 20
    }
}

/// LUN 0 as a load wants it, in blocks of 512 bytes.
pub struct Unit(pub Session);

impl Unit {
    /// Logs in.
    ///
    /// # Errors
    /// If it cannot.
    pub fn connect(login: &Login) -> Result<Box<dyn Blocks>, NbdError> {
        let mut session = Session::login(login).map_err(lost)?;
        // What changed before is told by the first commands.
        while session.run(0, &cdb::TEST_UNIT_READY).map_err(lost)?.status == 2 {}
        Ok(Box::new(Self(session)))
    }
}

fn lost(error: InitiatorError) -> NbdError {
    NbdError::Lost(std::io::Error::other(error.to_string()))
}

fn place(offset: u64, len: usize) -> (u64, u32) {
    (offset / 512, (len / 512) as u32)
}

impl Blocks for Unit {
    fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, NbdError> {
        let (block, blocks) = place(offset, len);
        let answer = self.0.read(0, &cdb::read(block, blocks), len).map_err(lost)?;
        if answer.status == 0 { Ok(answer.data) } else { Err(refused(&answer)) }
    }

    fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), NbdError> {
        let (block, blocks) = place(offset, data.len());
        let cdb = if fua { cdb::write_fua(block, blocks) } else { cdb::write(block, blocks) };
        done(self.0.write(0, &cdb, data))
    }

    fn flush(&mut self) -> Result<(), NbdError> {
        done(self.0.run(0, &cdb::synchronize()))
    }

    fn zero(&mut self, offset: u64, len: u32, discard: bool) -> Result<(), NbdError> {
        let (block, blocks) = place(offset, len as usize);
        // WRITE SAME (16) of a block of zeros, which unmaps where it may.
        let unmap = if discard { 8 } else { 0 };
        done(self.0.write(0, &cdb::sixteen(0x93, unmap, block, blocks), &[0; 512]))
    }
}

fn refused(answer: &holdfast_tests::iscsi::answer::Answer) -> NbdError {
    eprintln!("refused: {answer:?}");
    NbdError::Refused(answer.status.into())
}

fn done(answer: Result<holdfast_tests::iscsi::answer::Answer, InitiatorError>) -> Result<(), NbdError> {
    let answer = answer.map_err(lost)?;
    if answer.status == 0 { Ok(()) } else { Err(refused(&answer)) }
}
