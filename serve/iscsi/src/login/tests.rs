use std::cell::RefCell;

use super::chap::Algorithm;
use super::*;

const INITIATOR: &str = "iqn.2001-04.com.example:initiator";
const TARGET: &str = "iqn.2001-04.com.example:target";
const ISID: [u8; 6] = [0x80, 1, 2, 3, 4, 5];

/// A server with one target.
struct Server {
    way: Result<Way, Closed>,
    sessions: Vec<u16>,
    attempts: RefCell<Vec<(String, bool)>>,
    delay: Option<Duration>,
}

impl Server {
    fn new(chap: Option<Account>, mutual: Option<Account>) -> Self {
        let way = Ok(Way { alias: Some("disks".into()), group: 3, chap, mutual });
        Self { way, sessions: vec![7], attempts: RefCell::default(), delay: Some(Duration::ZERO) }
    }
}

impl Gate for Server {
    fn way(&self, initiator: &str, target: Option<&str>) -> Result<Way, Closed> {
        assert_eq!(initiator, INITIATOR);
        match target {
            None => Ok(Way::default()),
            Some(TARGET) => self.way.clone(),
            Some(_) => Err(Closed::NoTarget),
        }
    }

    fn has_session(&self, tsih: u16, _: &str, isid: [u8; 6]) -> bool {
        self.sessions.contains(&tsih) && isid == ISID
    }

    fn attempt(&self, _: &str) -> Option<Duration> {
        self.delay
    }

    fn attempted(&self, user: &str, right: bool) {
        self.attempts.borrow_mut().push((user.into(), right));
    }
}

fn header(flags: u8) -> Header {
    Header::new(LOGIN | 0x40, flags).with(8, &ISID).with_task_tag(5).with_u32(24, 100)
}

fn text_of(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    pairs.iter().for_each(|(key, value)| text::push(&mut bytes, key, value));
    bytes
}

const TO_OPERATIONAL: u8 = FLAG_TRANSIT | STAGE_OPERATIONAL;
const TO_FULL: u8 = FLAG_TRANSIT | STAGE_OPERATIONAL << 2 | STAGE_FULL_FEATURE;
const NAMES: [(&str, &str); 2] = [("InitiatorName", INITIATOR), ("TargetName", TARGET)];

/// One exchange; the pairs of the answer.
fn exchange(login: &mut Login, server: &Server, flags: u8, pairs: &[(&str, &str)]) -> (Step, Vec<(String, String)>) {
    let bytes = text_of(pairs);
    let step = login.take(&header(flags).with_data_bytes(bytes.len()), &bytes, server);
    let pairs = text::parse(&step.text).unwrap().iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    (step, pairs)
}

fn status(step: &Step) -> u16 {
    step.header.u16(36)
}

fn refused(server: &Server, flags: u8, pairs: &[(&str, &str)]) -> u16 {
    let (step, _) = exchange(&mut Login::new(65_536), server, flags, pairs);
    assert!(matches!(step.then, Then::Close(_)) && step.text.is_empty());
    status(&step)
}

fn find<'a>(pairs: &'a [(String, String)], key: &str) -> &'a str {
    pairs.iter().find(|(found, _)| found == key).map_or("", |(_, value)| value)
}

#[test]
fn a_login_without_secrets() {
    let server = Server::new(None, None);
    let mut login = Login::new(65_536);
    let offered = [NAMES[0], NAMES[1], ("SessionType", "Normal"), ("AuthMethod", "CHAP,None")];
    let (step, pairs) = exchange(&mut login, &server, TO_OPERATIONAL, &offered);
    assert_eq!((find(&pairs, "AuthMethod"), find(&pairs, "TargetPortalGroupTag")), ("None", "3"));
    assert_eq!((step.header.opcode(), step.header.flags()), (LOGIN_RESPONSE, TO_OPERATIONAL));
    assert_eq!((step.header.u32(24), step.header.u32(28), step.header.task_tag()), (1, 100, 5));
    let offered = [("HeaderDigest", "CRC32C,None"), ("ErrorRecoveryLevel", "2"), ("X-new", "1")];
    let (step, pairs) = exchange(&mut login, &server, TO_FULL, &offered);
    assert_eq!((find(&pairs, "HeaderDigest"), find(&pairs, "ErrorRecoveryLevel")), ("CRC32C", "0"));
    assert_eq!((find(&pairs, "X-new"), find(&pairs, "TargetAlias")), ("NotUnderstood", "disks"));
    assert_eq!(find(&pairs, "MaxRecvDataSegmentLength"), "262144");
    assert_eq!((step.header.flags(), step.header.u32(24), login.stat_sn()), (TO_FULL, 2, 3));
    let Then::Enter(agreed) = step.then else { panic!("the login is over") };
    assert_eq!((agreed.target.as_deref(), agreed.group, agreed.user), (Some(TARGET), 3, None));
    assert!(agreed.parameters.header_digest && agreed.cmd_sn == 100 && agreed.isid == ISID);
}

#[test]
fn no_answer_has_a_key_twice_whatever_the_initiator_says_in_the_place_of_the_target() {
    let server = Server::new(None, None);
    let wrong = [
        ("TargetPortalGroupTag", "9"),
        ("TargetAlias", "mine"),
        ("MaxRecvDataSegmentLength", "1"),
        ("TargetAddress", "10.0.0.1"),
        ("AuthMethod", "None"),
    ];
    for flags in [TO_OPERATIONAL, TO_FULL] {
        let offered = [&NAMES[..], &wrong[..]].concat();
        let (step, pairs) = exchange(&mut Login::new(65_536), &server, flags, &offered);
        assert_eq!((status(&step), find(&pairs, "TargetPortalGroupTag")), (0, "3"), "{pairs:?}");
        assert_eq!(find(&pairs, "TargetAddress"), "NotUnderstood");
    }
}

#[test]
fn names_in_capitals_are_the_same_names() {
    let server = Server::new(None, None);
    let names =
        [("InitiatorName", "IQN.2001-04.com.Example:Initiator"), ("TargetName", "IQN.2001-04.COM.example:TARGET")];
    let (step, _) = exchange(&mut Login::new(65_536), &server, TO_FULL, &names);
    let refused = status(&step);
    let Then::Enter(agreed) = step.then else { panic!("refused with {refused:04x}") };
    assert_eq!((agreed.initiator.as_str(), agreed.target.as_deref()), (INITIATOR, Some(TARGET)));
}

#[test]
fn the_first_burst_fits_the_burst_whichever_is_offered_first() {
    let server = Server::new(None, None);
    for offers in [
        [("FirstBurstLength", "262144"), ("MaxBurstLength", "65536")],
        [("MaxBurstLength", "65536"), ("FirstBurstLength", "262144")],
    ] {
        let (_, answers) = exchange(&mut Login::new(65_536), &server, TO_FULL, &[&NAMES[..], &offers].concat());
        assert_eq!((find(&answers, "MaxBurstLength"), find(&answers, "FirstBurstLength")), ("65536", "65536"));
    }
}

#[test]
fn a_login_may_skip_security_and_go_on_over_many_texts() {
    let server = Server::new(None, None);
    let mut login = Login::new(65_536);
    let whole = text_of(&[NAMES[0], NAMES[1], ("MaxBurstLength", "65536")]);
    let (first, second) = whole.split_at(30);
    let flags = FLAG_CONTINUE | STAGE_OPERATIONAL << 2;
    let step = login.take(&header(flags).with_data_bytes(first.len()), first, &server);
    assert_eq!((step.header.flags(), step.text.len()), (STAGE_OPERATIONAL << 2, 0));
    let step = login.take(&header(TO_FULL).with_data_bytes(second.len()), second, &server);
    assert!(matches!(step.then, Then::Enter(_)), "{step:?}");
}

#[test]
fn each_failure_has_its_status() {
    let open = Server::new(None, None);
    let account = Account::new("anna", "twelve bytes or more");
    let closed = Server::new(Some(account), None);
    assert_eq!(refused(&open, TO_FULL, &NAMES[1..]), 0x0207);
    assert_eq!(refused(&open, TO_FULL, &NAMES[..1]), 0x0207);
    assert_eq!(refused(&open, TO_FULL, &[("InitiatorName", "me"), NAMES[1]]), 0x0200);
    assert_eq!(refused(&open, TO_FULL, &[NAMES[0], ("TargetName", "iqn.2001-04.com.example:other")]), 0x0203);
    assert_eq!(refused(&open, TO_FULL, &[NAMES[0], NAMES[1], ("SessionType", "Other")]), 0x0209);
    assert_eq!(refused(&closed, TO_FULL, &NAMES), 0x0201);
    assert_eq!(refused(&closed, TO_OPERATIONAL, &NAMES), 0x0201);
    assert_eq!(refused(&closed, TO_OPERATIONAL, &[NAMES[0], NAMES[1], ("AuthMethod", "None")]), 0x0201);
    assert_eq!(refused(&open, TO_OPERATIONAL, &[NAMES[0], NAMES[1], ("AuthMethod", "CHAP")]), 0x0201);
    let forbidden = Server { way: Err(Closed::NotAllowed), ..Server::new(None, None) };
    assert_eq!(refused(&forbidden, TO_FULL, &NAMES), 0x0202);
    assert_eq!(refused(&open, FLAG_TRANSIT | STAGE_OPERATIONAL << 2 | 2, &NAMES), 0x0200);
    assert_eq!(refused(&open, FLAG_TRANSIT | STAGE_OPERATIONAL << 2, &NAMES), 0x0200);
    assert_eq!(refused(&open, FLAG_TRANSIT | FLAG_CONTINUE | 1, &NAMES), 0x0200);
    assert_eq!(refused(&open, 2 << 2, &NAMES), 0x0200);
    let with = |header: Header| {
        let bytes = text_of(&NAMES);
        status(&Login::new(65_536).take(&header.with_data_bytes(bytes.len()), &bytes, &open))
    };
    assert_eq!(with(header(TO_FULL).with_u8(3, 1)), 0x0205);
    assert_eq!(with(header(TO_FULL).with_u16(14, 7)), 0x0206, "a second connection");
    assert_eq!(with(header(TO_FULL).with_u16(14, 8)), 0x020a);
    assert_eq!(with(header(TO_FULL).with_u16(14, 7).with_u8(13, 9)), 0x020a, "of another initiator port");
    assert_eq!(with(Header::new(NOP_OUT, FLAG_FINAL)), 0x020b);
    assert_eq!(with(Header::new(SCSI_COMMAND, FLAG_FINAL)), 0x020b);
    let long = vec![b'x'; 5000];
    let mut login = Login::new(4096);
    let step = login.take(&header(FLAG_CONTINUE | 4).with_data_bytes(5000), &long, &open);
    assert_eq!(status(&step), 0x0302);
}

#[test]
fn a_login_that_changes_its_mind_is_refused() {
    let server = Server::new(None, None);
    let begin = || {
        let mut login = Login::new(65_536);
        exchange(&mut login, &server, STAGE_OPERATIONAL << 2, &NAMES);
        login
    };
    for changed in [
        header(TO_FULL).with_task_tag(6),
        header(TO_FULL).with_u8(13, 9),
        header(TO_FULL).with_u16(20, 1),
        header(FLAG_TRANSIT | STAGE_OPERATIONAL),
    ] {
        assert_eq!(status(&begin().take(&changed, &[], &server)), 0x0200, "{changed:?}");
    }
    let other = [("InitiatorName", "iqn.2001-04.com.example:another")];
    let (step, _) = exchange(&mut begin(), &server, TO_FULL, &other);
    assert_eq!(status(&step), 0x0200, "another name");
    let (step, _) = exchange(&mut begin(), &server, TO_FULL, &NAMES);
    assert_eq!(status(&step), 0, "the same names again");
    let mut login = begin();
    exchange(&mut login, &server, STAGE_OPERATIONAL << 2, &[("MaxBurstLength", "512")]);
    let (step, _) = exchange(&mut login, &server, TO_FULL, &[("MaxBurstLength", "1024")]);
    assert_eq!(status(&step), 0x0200, "a key twice");
}

/// A login up to its challenge: the number and the bytes.
fn challenged(login: &mut Login, server: &Server, algorithm: &str) -> (u8, Vec<u8>) {
    let offered = [NAMES[0], NAMES[1], ("AuthMethod", "CHAP,None")];
    let (step, pairs) = exchange(login, server, TO_OPERATIONAL, &offered);
    assert_eq!((step.header.flags(), find(&pairs, "AuthMethod")), (0, "CHAP"), "the stage is not left yet");
    let (_, pairs) = exchange(login, server, 0, &[("CHAP_A", algorithm)]);
    let challenge = text::binary(find(&pairs, "CHAP_C"), 1024).unwrap();
    (find(&pairs, "CHAP_I").parse().unwrap(), challenge)
}

fn prove(algorithm: Algorithm, identifier: u8, secret: &str, challenge: &[u8]) -> String {
    text::as_hexadecimal(&algorithm.response(identifier, &crate::account::Secret::new(secret), challenge))
}

const SECRET: &str = "twelve bytes or more";

fn guarded() -> Server {
    let mutual = Account::new("target", "another long secret");
    Server::new(Some(Account::new("anna", SECRET)), Some(mutual))
}

#[test]
fn chap_in_both_directions() {
    let server = guarded();
    for (number, algorithm) in [("5", Algorithm::Md5), ("7", Algorithm::Sha256)] {
        let mut login = Login::new(65_536);
        let (identifier, challenge) = challenged(&mut login, &server, number);
        let right = prove(algorithm, identifier, SECRET, &challenge);
        let asked = [("CHAP_N", "anna"), ("CHAP_R", &*right), ("CHAP_I", "9"), ("CHAP_C", "0x0102030405060708")];
        let (step, pairs) = exchange(&mut login, &server, TO_OPERATIONAL, &asked);
        assert_eq!((status(&step), step.header.flags()), (0, TO_OPERATIONAL));
        let proof = prove(algorithm, 9, "another long secret", &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((find(&pairs, "CHAP_N"), find(&pairs, "CHAP_R")), ("target", &*proof));
        let (step, _) = exchange(&mut login, &server, TO_FULL, &[]);
        let Then::Enter(agreed) = step.then else { panic!("the login is over") };
        assert_eq!((agreed.user.as_deref(), agreed.mutual), (Some("anna"), true));
    }
    assert!(server.attempts.borrow().iter().all(|(user, right)| user == "anna" && *right));
}

type Pairs = Vec<(String, String)>;

#[test]
fn chap_without_the_secret_fails() {
    let server = guarded();
    let answer = |pairs: &dyn Fn(u8, &[u8]) -> Pairs| {
        let mut login = Login::new(65_536);
        let (identifier, challenge) = challenged(&mut login, &server, "5");
        let pairs = pairs(identifier, &challenge);
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (&**key, &**value)).collect();
        let (step, _) = exchange(&mut login, &server, TO_OPERATIONAL, &pairs);
        assert!(step.text.is_empty(), "a refusal tells nothing");
        (status(&step), login.user().map(str::to_owned))
    };
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let right = |identifier, challenge: &[u8]| pair("CHAP_R", &prove(Algorithm::Md5, identifier, SECRET, challenge));
    let wrong = answer(&|i, c| vec![pair("CHAP_N", "anna"), pair("CHAP_R", &prove(Algorithm::Md5, i, "wrong", c))]);
    assert_eq!(wrong, (0x0201, Some("anna".into())));
    assert_eq!(answer(&|i, c| vec![pair("CHAP_N", "bert"), right(i, c)]).0, 0x0201);
    assert_eq!(answer(&|_, _| vec![pair("CHAP_N", "anna"), pair("CHAP_R", "0x")]).0, 0x0201);
    assert_eq!(answer(&|i, c| vec![right(i, c)]).0, 0x0207);
    let mirror = |i, c: &[u8]| {
        vec![pair("CHAP_N", "anna"), right(i, c), pair("CHAP_I", "1"), pair("CHAP_C", &text::as_hexadecimal(c))]
    };
    assert_eq!(answer(&mirror).0, 0x0201, "its own challenge is not answered");
    let half = |i, c: &[u8]| vec![pair("CHAP_N", "anna"), right(i, c), pair("CHAP_I", "1")];
    assert_eq!(answer(&half).0, 0x0207);
    let mut login = Login::new(65_536);
    exchange(&mut login, &server, 0, &[NAMES[0], NAMES[1], ("AuthMethod", "CHAP")]);
    for wrong in ["56", ""] {
        let mut login = Login::new(65_536);
        exchange(&mut login, &server, 0, &[NAMES[0], NAMES[1], ("AuthMethod", "CHAP")]);
        assert_eq!(status(&exchange(&mut login, &server, 0, &[("CHAP_A", wrong)]).0), 0x0201);
    }
    let (step, _) = exchange(&mut login, &server, 0, &[("CHAP_N", "anna"), ("CHAP_R", "0x00")]);
    assert_eq!(status(&step), 0x0200, "an answer before the challenge");
}

#[test]
fn equal_secrets_prove_nothing() {
    let same = Account::new("target", SECRET);
    let server = Server::new(Some(Account::new("anna", SECRET)), Some(same));
    let mut login = Login::new(65_536);
    let (identifier, challenge) = challenged(&mut login, &server, "5");
    let right = prove(Algorithm::Md5, identifier, SECRET, &challenge);
    let asked = [("CHAP_N", "anna"), ("CHAP_R", &*right), ("CHAP_I", "9"), ("CHAP_C", "0x0102030405060708")];
    assert_eq!(status(&exchange(&mut login, &server, TO_OPERATIONAL, &asked).0), 0x0201);
}

#[test]
fn a_throttled_login_waits_or_is_refused() {
    let mut server = guarded();
    server.delay = Some(Duration::from_secs(2));
    let mut login = Login::new(65_536);
    challenged(&mut login, &server, "5");
    let (step, _) = exchange(&mut login, &server, 0, &[("CHAP_N", "anna"), ("CHAP_R", "0x00")]);
    assert_eq!((status(&step), step.delay), (0x0201, Duration::from_secs(2)));
    server.delay = None;
    let mut login = Login::new(65_536);
    challenged(&mut login, &server, "5");
    let (step, _) = exchange(&mut login, &server, 0, &[("CHAP_N", "anna"), ("CHAP_R", "0x00")]);
    assert_eq!(status(&step), 0x0301);
}

#[test]
fn security_comes_before_anything_else() {
    let server = guarded();
    let mut login = Login::new(65_536);
    let offered = [NAMES[0], NAMES[1], ("AuthMethod", "CHAP"), ("MaxBurstLength", "512"), ("Nonsense", "1")];
    let (_, pairs) = exchange(&mut login, &server, 0, &offered);
    assert_eq!((find(&pairs, "MaxBurstLength"), find(&pairs, "Nonsense")), ("Reject", "NotUnderstood"));
    // Out of the stage without the proof: the target stays in it.
    let (step, _) = exchange(&mut login, &server, FLAG_TRANSIT | STAGE_FULL_FEATURE, &[]);
    assert!(matches!(step.then, Then::Continue) && !step.header.has(FLAG_TRANSIT));
    let step = login.take(&header(TO_FULL), &[], &server);
    assert_eq!(status(&step), 0x0200, "nor by claiming another stage");
}

#[test]
fn discovery_needs_no_target() {
    let server = Server::new(None, None);
    let mut login = Login::new(65_536);
    let offered = [NAMES[0], ("SessionType", "Discovery"), ("MaxBurstLength", "512")];
    let (step, pairs) = exchange(&mut login, &server, TO_FULL, &offered);
    assert_eq!((find(&pairs, "MaxBurstLength"), find(&pairs, "TargetPortalGroupTag")), ("Irrelevant", ""));
    let Then::Enter(agreed) = step.then else { panic!("the login is over") };
    assert_eq!((agreed.target, agreed.group), (None, 0));
}
