use super::*;

#[test]
fn a_place_is_where_extents_begin_whatever_the_key_is() {
    let extent = keys::extent(7, MAIN, 300);
    assert_eq!(place(&extent), (7, 299));
    assert_eq!(place(&extent[..12]), (7, 0), "cut short");
    assert_eq!(place(&extent[..20]), (7, 255), "cut within the number");
    assert_eq!(place(&keys::record(7)), (7, 0));
    assert_eq!(place(&keys::entry(7, 99)), (7, 0));
    assert_eq!(place(&7u64.to_be_bytes()), (7, 0));
    assert_eq!(place(&keys::extent(7, MAIN + 1, 5)), (8, 0), "behind all extents of its data");
}
