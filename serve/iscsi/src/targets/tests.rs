use super::*;

fn listed(iqn: &str, chap: Option<Account>) -> Allowed {
    Allowed { iqn: iqn.into(), chap }
}

#[test]
fn access_is_by_name_or_open() {
    let account = Account::new("anna", "twelve bytes or more");
    let initiators =
        vec![listed("iqn.2001-04.com.example:a", Some(account.clone())), listed("eui.0123456789abcdef", None)];
    let mut access = Access { open: false, initiators, mutual: None };
    assert_eq!(access.of("iqn.2001-04.com.example:a"), Some(Some(&account)));
    assert_eq!(access.of("eui.0123456789abcdef"), Some(None));
    assert_eq!(access.of("iqn.2001-04.com.example:b"), None);
    access.open = true;
    assert_eq!(access.of("iqn.2001-04.com.example:b"), Some(None));
    assert_eq!(access.of("iqn.2001-04.com.example:a"), Some(Some(&account)), "who is listed proves its name");
}

#[test]
fn access_that_makes_no_sense_is_refused() {
    let name = "iqn.2001-04.com.example:a";
    let with = |initiators: Vec<Allowed>, mutual: Option<Account>| Access { open: false, initiators, mutual }.check();
    let good = Account::new("anna", "twelve bytes or more");
    assert!(with(vec![listed(name, Some(good.clone()))], Some(Account::new("t", "another long secret"))).is_ok());
    assert!(matches!(with(vec![listed("a", None)], None), Err(IscsiError::Name(_))));
    assert!(matches!(with(vec![listed(name, None), listed(name, None)], None), Err(IscsiError::Twice(_))));
    assert!(matches!(with(vec![listed(name, Some(Account::new("a", "short")))], None), Err(IscsiError::Secret(_))));
    let nobody = Account::new("", "twelve bytes or more");
    assert!(matches!(with(vec![listed(name, Some(nobody))], None), Err(IscsiError::User(_))));
    let same = Account::new("t", "twelve bytes or more");
    assert!(matches!(with(vec![listed(name, Some(good))], Some(same)), Err(IscsiError::SameSecret(_))));
}
