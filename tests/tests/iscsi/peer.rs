//! The initiator of the tests, and those of others, against Debian's target.

use std::fs::File;

use holdfast_tests::iscsi::answer::{key, status};
use holdfast_tests::iscsi::cdb;
use holdfast_tests::iscsi::chap::Account;
use holdfast_tests::iscsi::initiator::{Command, Session};
use holdfast_tests::iscsi::login::Login;
use holdfast_tests::iscsi::tgt::{TARGET, Tgt};
use holdfast_tests::iscsi::tools::{Place, libiscsi, list};
use holdfast_tests::iscsi::wire::InitiatorError;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;

const UNIT_BYTES: u64 = 64 << 20;

fn unit(scene: &Scene, tgt: &mut Tgt) -> u16 {
    let path = scene.path("unit");
    File::create(&path).and_then(|file| file.set_len(UNIT_BYTES)).expect("a file can be made");
    tgt.add(&path, &[])
}

#[track_caller]
fn lost<T>(result: Result<T, InitiatorError>) -> InitiatorError {
    result.err().expect("it is refused")
}

/// Writes and reads of every length that goes another way: within the command, behind it, and when asked for.
fn moves_data(session: &mut Session, lun: u16) {
    for (seed, blocks) in [1u32, 8, 100, 512, 600, 2048, 4096].into_iter().enumerate() {
        let data = bytes(seed as u64, blocks as usize * 512);
        session.write(lun, &cdb::write(64, blocks), &data).expect("an answer").good();
        let read = session.read(lun, &cdb::read(64, blocks), data.len()).expect("an answer").good();
        assert!(read == data, "{blocks} blocks come back as they were written");
    }
}

#[test]
fn our_initiator_moves_data_in_every_way() {
    let scene = Scene::new();
    let mut tgt = Tgt::start(&scene, 1);
    let lun = unit(&scene, &mut tgt);
    let plain = Login::new(tgt.address(), TARGET);
    let logins = [
        plain.clone(),
        plain.clone().digests(),
        plain.clone().offer("ImmediateData", "No"),
        plain.clone().offer("InitialR2T", "Yes"),
        plain.clone().offer("InitialR2T", "Yes").offer("ImmediateData", "No").offer("MaxBurstLength", "4096"),
        plain.offer("MaxRecvDataSegmentLength", "512"),
    ];
    for login in logins {
        let mut session = Session::of(&login, &[lun]);
        moves_data(&mut session, lun);
        session.ping(b"still there?").expect("a pong");
        assert_eq!(session.logout().expect("an answer"), 0);
    }
}

#[test]
fn our_initiator_reads_answers_sense_and_residuals() {
    let scene = Scene::new();
    let mut tgt = Tgt::start(&scene, 1);
    let lun = unit(&scene, &mut tgt);
    let mut session = Session::to(tgt.address(), TARGET, &[lun]);
    let capacity = session.read(lun, &cdb::read_capacity(), 32).expect("an answer").good();
    assert_eq!(capacity[..8], (UNIT_BYTES / 512 - 1).to_be_bytes());
    let luns = session.read(0, &cdb::report_luns(256), 256).expect("an answer");
    assert!(luns.residual > 0);
    assert_eq!(luns.good()[..4], 16u32.to_be_bytes());
    let beyond = session.read(lun, &cdb::read(UNIT_BYTES / 512, 1), 512).expect("an answer");
    beyond.fails_with(key::ILLEGAL_REQUEST, 0x21, 0);
    let tags: Vec<u32> = (0..64)
        .map(|block| session.submit(Command::new(lun, &cdb::read(block, 8), [], 4096)).expect("it is sent"))
        .collect();
    for tag in tags.into_iter().rev() {
        assert_eq!(session.answer_to(tag).expect("an answer").good(), [0; 4096]);
    }
    assert_eq!(session.manage(5, lun, u32::MAX).expect("a response"), 0, "a reset of the logical unit");
    session.run(lun, &cdb::TEST_UNIT_READY).expect("an answer").fails_with(key::UNIT_ATTENTION, 0x29, 0);
    let mut other = Session::of(&Login::new(tgt.address(), TARGET).port(2), &[lun]);
    other.write(lun, &cdb::reserve_out(0, 0), &cdb::reserve_parameters(0, 7, false)).expect("an answer").good();
    other.write(lun, &cdb::reserve_out(1, 1), &cdb::reserve_parameters(7, 0, false)).expect("an answer").good();
    let kept_out = session.write(lun, &cdb::write(0, 1), &[1; 512]).expect("an answer");
    kept_out.has_status(status::RESERVATION_CONFLICT);
}

#[test]
fn our_initiator_proves_who_it_is_and_asks_who_is_there() {
    let scene = Scene::new();
    let mut tgt = Tgt::start(&scene, 1);
    let lun = unit(&scene, &mut tgt);
    tgt.account("we", "our secret of 16", false);
    tgt.account("they", "their secret of 18", true);
    let login = Login::new(tgt.address(), TARGET);
    Session::of(&login.clone().chap("we", "our secret of 16"), &[lun]);
    let mutual = login.clone().chap("we", "our secret of 16").mutual("they", "their secret of 18");
    Session::of(&mutual, &[lun]);
    assert!(matches!(lost(Session::login(&login)), InitiatorError::Refused(2, 1)));
    let wrong = Session::login(&login.clone().chap("we", "another secret"));
    assert!(matches!(lost(wrong), InitiatorError::Refused(2, 1)));
    let wrong = Session::login(&login.clone().chap("we", "our secret of 16").mutual("they", "another secret"));
    assert!(matches!(lost(wrong), InitiatorError::Broken(_)));
    let mut discovery = Session::login(&Login::discovery(tgt.address())).expect("a session");
    // It tells only the portal that it was asked at.
    let targets = discovery.targets().expect("targets");
    assert_eq!(targets, [(TARGET.to_owned(), vec![format!("{},1", tgt.address())])]);
}

#[test]
fn initiators_of_others_are_driven_right() {
    let scene = Scene::new();
    let mut tgt = Tgt::start(&scene, 1);
    let lun = unit(&scene, &mut tgt);
    tgt.account("we", "secret_of_ours_16", false);
    let place = Place::new(tgt.address(), TARGET, lun).chap("we", "secret_of_ours_16");
    let account = Account::new("we", "secret_of_ours_16");
    assert!(list(tgt.address(), Some(&account)).succeeded().contains(TARGET));
    assert!(libiscsi("iscsi-inq", &[], &place).succeeded().contains("IET"));
    assert!(libiscsi("iscsi-readcapacity16", &[], &place).succeeded().contains("67108864"));
    let (image, back) = (scene.path("image"), scene.path("back"));
    std::fs::write(&image, bytes(1, UNIT_BYTES as usize)).expect("an image can be written");
    place.fill_from(&image).succeeded();
    place.copy_to(&back).succeeded();
    assert!(std::fs::read(&image).expect("an image") == std::fs::read(&back).expect("a copy"));
    place.qemu_io(&["write -P 7 1M 64k", "read -P 7 1M 64k", "flush"]).succeeded();
    Place { chap: Some(Account::new("we", "another")), ..place }.qemu_io(&["read 0 512"]).refused();
}
