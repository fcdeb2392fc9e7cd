use std::collections::BTreeSet;

use clap::CommandFactory;

use super::*;

/// The command forms that scripts rely on.
const FORMS: &[&str] = &[
    "serve --state DIR",
    "serve --state DIR --socket PATH --nbd unix:/run/nbd.sock --nbd tcp:127.0.0.1:10809",
    "serve --state DIR --nbd-tls-cert C --nbd-tls-key K --nbd-tls-client-ca A --nbd-tls-required",
    "serve --state DIR --reactors 2 --spin 50us --wake-within 0 --log-format json",
    "serve --state DIR --wake-within any",
    "serve --state DIR --scrub-every 12h",
    "serve --state DIR --scrub-every never",
    "disk list",
    "disk show /dev/sda",
    "disk create-file PATH --size 1GiB",
    "disk set DISK --media hdd",
    "disk set DISK --media ssd --enclosure E --slot 3 --usage hot-spare",
    "disk set DISK --usage auto",
    "disk set DISK --usage manual",
    "disk set DISK --usage journal",
    "disk set DISK --usage retired",
    "disk evacuate DISK --priority high --wait",
    "disk evacuate DISK --dry-run",
    "pool rebalance tank --dry-run",
    "pool rebalance tank --priority low --wait",
    "pool upgrade tank --dry-run",
    "pool set tank --alert 70,85,95",
    "pool set tank --alert none",
    "space convert tank/vol --size 4GiB --discard-beyond",
    "disk wipe DISK --force",
    "pool create POOL --disk a",
    "pool create POOL --disk a b --disk c --force",
    "pool list",
    "pool show POOL",
    "pool add POOL --disk a b --force",
    "pool import",
    "pool import --disk-dir D --disk-dir E POOL --force",
    "pool salvage a b",
    "pool salvage a b --dry-run",
    "pool salvage a --write --name POOL --pool 6a1c3a4e-6c5e-4f9e-8f1e-0d7f2f4a9b11",
    "pool export POOL",
    "pool destroy POOL --yes",
    "space create POOL/SPACE --layout simple --size 4GiB",
    "space create POOL/SPACE --layout mirror --copies 3 --columns 2 --interleave 256KiB --size 4GiB --thin",
    "space create POOL/SPACE --layout parity --size 4GiB",
    "space create POOL/SPACE --layout parity --parity 2 --columns 7 --interleave 64KiB --journal 1GiB --size 4GiB --dry-run",
    "space list",
    "space show POOL/SPACE",
    "space grow POOL/SPACE --size 8GiB",
    "space create POOL/SPACE --layout mirror --copies 3 --size 4GiB --enclosure-aware",
    "space set POOL/SPACE --journal 1GiB",
    "space set POOL/SPACE --max-iops 2000 --burst-iops 500 --max-bandwidth 100MiB --burst-bandwidth 1GiB --min-iops 100",
    "nbd set NAME --max-iops 0 --read-only true",
    "nbd connections NAME",
    "serve --state DIR --iscsi 127.0.0.1:3260 --iscsi localhost:3261 --iscsi-sessions 8 --iscsi-tasks 32 --iscsi-memory 64MiB",
    "target create NAME",
    "target create NAME --iqn IQN --portal 192.0.2.7 --portal [fd00::1]:3261 --open",
    "target list",
    "target show NAME",
    "target set NAME --open",
    "target set NAME --closed",
    "target set NAME --mutual USER --secret-file F",
    "target set NAME --no-mutual",
    "target destroy NAME",
    "target portal add TARGET ADDR --group 2 --state standby",
    "target portal set TARGET ADDR --state non-optimized",
    "target portal set TARGET ADDR --group 7 --state active",
    "target portal remove TARGET ADDR",
    "lun add TARGET POOL/SPACE",
    "lun add TARGET POOL/SPACE --lun 3 --block 512 --read-only",
    "lun add TARGET POOL/VOLUME:DIR/FILE --block 4096 --size 1GiB",
    "lun add TARGET POOL/VOLUME:FILE --size 1GiB --full",
    "lun add TARGET POOL/SPACE --alert 80",
    "lun show TARGET 3",
    "lun set TARGET 3 --max-iops 2000 --min-iops 100",
    "lun set TARGET 3 --alert 75%",
    "lun set TARGET 3 --alert none --max-iops 2000",
    "lun set TARGET 3 --alert default",
    "lun grow TARGET 3 --size 8GiB",
    "lun remove TARGET 3",
    "initiator allow TARGET IQN",
    "initiator allow TARGET IQN --chap USER --secret-file F",
    "initiator allow TARGET IQN --no-chap",
    "initiator deny TARGET IQN",
    "iscsi session list",
    "iscsi session drop 7",
    "iscsi discovery set --chap USER",
    "iscsi discovery show",
    "iscsi discovery clear",
    "reservation list",
    "reservation list TARGET 3",
    "reservation clear TARGET 3 --yes",
    "history lun TARGET/3",
    "history space POOL/SPACE --last 1h --points 60",
    "history server",
    "space accept POOL/SPACE",
    "space map POOL/SPACE",
    "space verify POOL/SPACE",
    "space scrub POOL/SPACE",
    "space repair POOL/SPACE --wait",
    "space convert POOL/SPACE --layout parity --parity 2 --columns 7 --interleave 64KiB --journal 1GiB --fixed --cap 1GiB",
    "space convert POOL/SPACE --layout mirror --copies 3 --thin --wait",
    "space scrub POOL/SPACE --priority low --cap 50MiB --wait",
    "space destroy POOL/SPACE --yes",
    "volume create POOL/VOLUME --size 4GiB",
    "volume create POOL/VOLUME --size 4GiB --layout parity --parity 2 --columns 7 --thin --case-sensitive",
    "volume create POOL/VOLUME --on POOL/SPACE",
    "volume list",
    "volume show POOL/VOLUME",
    "volume mount POOL/VOLUME DIR",
    "volume mount POOL/VOLUME DIR --over",
    "volume mount POOL/VOLUME DIR --create-directory",
    "volume unmount POOL/VOLUME",
    "volume unmount POOL/VOLUME --force",
    "volume grow POOL/VOLUME --size 8GiB",
    "volume shrink POOL/VOLUME --size 2GiB --dry-run",
    "volume shrink POOL/VOLUME --size 2GiB --wait",
    "volume adopt POOL/VOLUME --on POOL/SPACE",
    "volume du POOL/VOLUME",
    "volume du POOL/VOLUME /DIR",
    "volume quota set POOL/VOLUME --path /DIR --size 10GiB --files 1000 --soft-size 8GiB --soft-files 900",
    "volume quota set POOL/VOLUME --user NAME --size 10GiB",
    "volume quota set POOL/VOLUME --group 100 --files 1000",
    "volume quota list POOL/VOLUME",
    "volume quota list POOL/VOLUME --all",
    "volume quota remove POOL/VOLUME --path /DIR",
    "volume quota remove POOL/VOLUME --user NAME",
    "volume quota remove POOL/VOLUME --group 100",
    "volume set POOL/VOLUME --mode-change refuse",
    "volume quota set POOL/VOLUME --owner S-1-5-21-1-2-3-1000 --size 1GiB",
    "volume integrity get POOL/VOLUME/DIR/FILE",
    "volume integrity set /MOUNTED/DIR strict --below --wait",
    "volume scrub POOL/VOLUME --wait --priority low",
    "volume gather POOL/VOLUME --wait --priority low",
    "volume damage POOL/VOLUME",
    "volume journal set POOL/VOLUME --size 32MiB",
    "volume journal show POOL/VOLUME",
    "volume journal read POOL/VOLUME --from 4096 --follow",
    "volume journal remove POOL/VOLUME --yes",
    "volume acl get POOL/VOLUME/DIR/FILE",
    "volume acl set /MOUNTED/DIR --sddl D:(A;OICI;FA;;;WD) --below --wait",
    "volume acl access POOL/VOLUME/DIR --user NAME",
    "volume scan POOL/VOLUME",
    "volume scan POOL/VOLUME --wait",
    "volume findings POOL/VOLUME",
    "volume spotfix POOL/VOLUME --wait",
    "volume spotfix POOL/VOLUME --offline --force --wait",
    "volume trim POOL/VOLUME",
    "volume trim POOL/VOLUME --wait",
    "volume salvage POOL/VOLUME --to DIRECTORY --force --wait",
    "volume destroy POOL/VOLUME --yes",
    "volume destroy POOL/VOLUME --yes --force",
    "snapshot create POOL/VOLUME@NAME",
    "snapshot list POOL/VOLUME",
    "snapshot diff POOL/VOLUME@NAME",
    "snapshot diff POOL/VOLUME@NAME @OTHER --path /DIR",
    "snapshot restore POOL/VOLUME@NAME --yes",
    "snapshot restore POOL/VOLUME@NAME --path /DIR/FILE --yes --discard --wait",
    "snapshot restore POOL/VOLUME@NAME --path /DIR --to /OTHER --priority low --cap 50MiB/s",
    "snapshot destroy POOL/VOLUME@NAME --yes",
    "snapshot schedule set POOL/VOLUME --every 1h --keep 24",
    "snapshot schedule set POOL/VOLUME --every 1d --at 03:00 --keep 7",
    "snapshot schedule show POOL/VOLUME",
    "snapshot schedule remove POOL/VOLUME",
    "snapshot schedule remove POOL/VOLUME --every 1h",
    "nbd export POOL/SPACE",
    "nbd export POOL/SPACE --name NAME --read-only",
    "nbd list",
    "nbd unexport NAME",
    "nbd unexport NAME --space POOL/SPACE",
    "job list",
    "job list --all",
    "job show 7",
    "job watch 7",
    "disk retire DISK",
    "disk retire DISK --evacuate --priority low --cap 50MiB/s --wait",
    "disk replace OLD",
    "disk replace OLD NEW",
    "disk replace OLD NEW --force --priority high --cap none --wait",
    "disk remove DISK",
    "disk locate DISK",
    "disk locate DISK --off",
    "pool set POOL --retire-policy never",
    "pool set POOL --retire-policy auto --grace 5m",
    "pool set POOL --grace 0",
    "pool set POOL --grace default",
    "job pause 7",
    "job resume 7",
    "job cancel 7",
    "job set 7 --priority high",
    "job set 7 --priority low --cap 50MiB/s",
    "job set 7 --cap none",
    "job set 7 --cap 0",
    "event list",
    "event list --follow",
    "notify channel add mail ops --host mail.example.com --from nas@example.com --to a@example.com b@example.com",
    "notify channel add mail ops --host M --port 465 --security tls --user U --password-file F --from A --to B --ca-file C",
    "notify channel add webhook hook --url https://x/y --template slack --secret --token",
    "notify channel add webhook hook --url-file F --template ntfy --secret-file S --token-file T --ca-file C",
    "notify channel list",
    "notify channel show ops",
    "notify channel set ops --security starttls --password --no-ca",
    "notify channel set ops --no-login",
    "notify channel set hook --template teams --no-secret --no-token",
    "notify channel remove ops",
    "notify rule add bad --channel ops --severity warning --object pool --object disk --digest 15m --quiet 22:00-07:00",
    "notify rule add bad --channel ops --digest none --errors-pass-quiet false",
    "notify rule list",
    "notify rule show bad",
    "notify rule set bad --channel hook --severity error --quiet none --all-objects --disable",
    "notify rule remove bad",
    "notify test ops",
    "notify deliveries",
    "status",
    "demo",
    "demo --dir D --once",
    "completion bash",
    "serve --state DIR --https [::]:8443 --https 127.0.0.1:9443 --https-cert C --https-key K",
    "login https://nas:8443 --account ann --fingerprint AA:BB --expires 12h",
    "logout --server https://nas:8443",
    "whoami",
    "account create ann --role administrator",
    "account list",
    "account show ann",
    "account set ann --role viewer --password --disable",
    "account delete ann",
    "account password",
    "token create watch --role viewer --area pools,status --expires 90d",
    "token list",
    "token delete ID",
    "audit --after 7 --limit 10 --account ann --kind pool --object tank",
    "settings",
    "settings show",
    "settings set --host-name NAME --scrub-every 7d --repair-after never --alert default",
    "backup FILE",
    "restore FILE --state DIR",
    "openapi",
    "man DIR",
];

fn parse(form: &str) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(std::iter::once("holdfast").chain(form.split(' ')))
}

fn leaves(command: &clap::Command, prefix: &str, into: &mut BTreeSet<String>) {
    for sub in command.get_subcommands() {
        let name = format!("{prefix}{}", sub.get_name());
        leaves(sub, &format!("{name} "), into);
        if !sub.is_subcommand_required_set() {
            into.insert(name);
        }
    }
}

#[test]
fn the_definition_is_sound() {
    Arguments::command().debug_assert();
}

#[test]
fn every_form_that_scripts_rely_on_is_taken_and_no_command_is_missing_there() {
    let mut commands = BTreeSet::new();
    leaves(&Arguments::command(), "", &mut commands);
    for form in FORMS {
        assert!(parse(form).is_ok(), "{form}: {}", parse(form).unwrap_err());
        assert!(parse(&format!("{form} --json")).is_ok(), "{form} --json");
        assert!(commands.iter().any(|command| form.starts_with(command.as_str())), "{form}");
    }
    for command in commands {
        assert!(FORMS.iter().any(|form| form.starts_with(&command)), "no form of '{command}'");
    }
}

#[test]
fn every_command_and_option_explains_itself() {
    fn check(command: &clap::Command) {
        assert!(command.get_about().is_some(), "{} has no help", command.get_name());
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{} of {} has no help", argument.get_id(), command.get_name());
        }
        command.get_subcommands().for_each(check);
    }
    check(&Arguments::command());
}

#[test]
fn what_cannot_be_is_a_usage_error() {
    for form in [
        "",
        "serve",
        "serve --state D --nbd /run/x.sock",
        "serve --state D --https nas",
        "serve --state D --https-cert C --https-key K",
        "serve --state D --https 127.0.0.1:8443 --https-cert C",
        "account create ann",
        "account create ann --role root",
        "account set ann",
        "account set ann --enable --disable",
        "token create watch",
        "restore FILE",
        "serve --state D --reactors 0",
        "serve --state D --spin 50",
        "serve --state D --wake-within soon",
        "serve --state D --nbd-tls-required",
        "pool create POOL",
        "pool create POOL --disk",
        "disk create-file PATH",
        "disk create-file PATH --size 4parsecs",
        "disk set DISK",
        "disk set DISK --media tape",
        "disk set DISK --slot 1",
        "disk set DISK --usage all",
        "space set POOL/SPACE",
        "pool set POOL",
        "pool set POOL --retire-policy sometimes",
        "pool set POOL --grace 10ms",
        "pool set POOL --grace 99999999d",
        "disk replace",
        "space create SPACE --layout simple --size 1GiB",
        "space create POOL/SPACE --size 1GiB",
        "space create POOL/SPACE --layout raid --size 1GiB",
        "space create POOL/SPACE --layout parity --parity two --size 1GiB",
        "space create POOL/SPACE --layout simple --size -1",
        "serve --state D --scrub-every 0",
        "serve --state D --scrub-every weekly",
        "settings set",
        "settings set --scrub-every 0",
        "job show x",
        "space convert POOL/SPACE --layout mirror --thin --fixed",
        "job set 7",
        "notify channel add mail",
        "notify channel add pigeon ops",
        "notify channel add mail ops --security ssl",
        "notify channel add webhook hook --url https://x/ --url-file F",
        "notify channel set ops --password --no-login",
        "notify rule add bad",
        "notify rule add bad --channel ops --severity critical",
        "notify rule add bad --channel ops --digest 10ms",
        "notify rule set bad --all-objects --object pool",
        "job set 7 --cap fast",
        "job set 7 --priority urgent",
        "serve --state D --iscsi nowhere",
        "serve --state D --iscsi 127.0.0.1:3260 --iscsi-sessions 0",
        "target set NAME",
        "target set NAME --open --closed",
        "target set NAME --mutual USER --no-mutual",
        "target portal set TARGET ADDR",
        "target portal add TARGET ADDR --state offline",
        "target portal add TARGET ADDR --group 70000",
        "lun add TARGET",
        "lun add TARGET POOL/SPACE --block 1024",
        "lun add TARGET POOL/SPACE --lun x",
        "lun set TARGET 3",
        "lun set TARGET 3 --alert 0",
        "lun set TARGET 3 --alert 101",
        "initiator allow TARGET IQN --chap USER --no-chap",
        "initiator allow TARGET IQN --secret S",
        "iscsi session drop x",
        "iscsi discovery set",
        "reservation clear TARGET",
        "event",
        "unknown",
    ] {
        let error = parse(form).err().unwrap_or_else(|| panic!("'{form}' was taken"));
        assert_eq!(error.exit_code(), 2, "{form}");
    }
}

#[test]
fn durations_have_units() {
    assert_eq!(parse_duration("50us"), Ok(Duration::from_micros(50)));
    assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
    assert!(parse_duration("50").is_err() && parse_duration("us").is_err() && parse_duration("1w").is_err());
    assert_eq!(parse_every("7d"), Ok(Every(Some(Duration::from_secs(604_800)))));
    assert_eq!(
        (parse_every("never"), parse_every("90m")),
        (Ok(Every(None)), Ok(Every(Some(Duration::from_secs(5400)))))
    );
    assert!(parse_duration("999999999999999999d").is_err());
    assert_eq!((parse_cap("none"), parse_cap("0"), parse_cap("2MiB/s")), (Ok(Cap(0)), Ok(Cap(0)), Ok(Cap(2 << 20))));
}
