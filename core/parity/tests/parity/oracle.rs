//! Intel ISA-L as Debian ships it (package `libisal2`), found at run time: an oracle for tests and a peer for
//! measurements.

use std::ffi::{c_int, c_void};

use libloading::Library;

type Generate = unsafe extern "C" fn(c_int, c_int, *mut *mut c_void) -> c_int;
type InitTables = unsafe extern "C" fn(c_int, c_int, *const u8, *mut u8);
type EncodeData = unsafe extern "C" fn(c_int, c_int, c_int, *const u8, *const *const u8, *const *mut u8);
type InvertMatrix = unsafe extern "C" fn(*mut u8, *mut u8, c_int) -> c_int;
type GenerateMatrix = unsafe extern "C" fn(*mut u8, c_int, c_int);

/// What its P and P+Q want of every piece.
pub const ALIGN_BYTES: usize = 64;
const MAX_PIECES: usize = 64;

/// The library.
pub struct Isal {
    pq_gen: Generate,
    xor_gen: Generate,
    ec_init_tables: InitTables,
    ec_encode_data: EncodeData,
    gf_invert_matrix: InvertMatrix,
    gf_gen_rs_matrix: GenerateMatrix,
    _library: Library,
}

/// A matrix of constants, in the form that it multiplies with.
pub struct Tables {
    columns: usize,
    rows: usize,
    bytes: Vec<u8>,
}

impl Isal {
    /// Loads it, and fails where it is not installed.
    pub fn load() -> Self {
        let name = "libisal.so.2";
        // SAFETY: the library has no constructors that touch anything of ours; the functions have these types by its
        // headers.
        unsafe {
            let library =
                Library::new(name).unwrap_or_else(|error| panic!("{name}: {error}; scripts/packages.sh installs it"));
            Self {
                pq_gen: *library.get(b"pq_gen").expect("pq_gen"),
                xor_gen: *library.get(b"xor_gen").expect("xor_gen"),
                ec_init_tables: *library.get(b"ec_init_tables").expect("ec_init_tables"),
                ec_encode_data: *library.get(b"ec_encode_data").expect("ec_encode_data"),
                gf_invert_matrix: *library.get(b"gf_invert_matrix").expect("gf_invert_matrix"),
                gf_gen_rs_matrix: *library.get(b"gf_gen_rs_matrix").expect("gf_gen_rs_matrix"),
                _library: library,
            }
        }
    }

    fn generate(function: Generate, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        let len = parity[0].len();
        let count = data.len() + parity.len();
        assert!(len.is_multiple_of(ALIGN_BYTES) && count <= MAX_PIECES);
        let mut pieces = [std::ptr::null_mut::<c_void>(); MAX_PIECES];
        for (piece, bytes) in pieces.iter_mut().zip(data) {
            assert!(bytes.len() == len && (bytes.as_ptr() as usize).is_multiple_of(ALIGN_BYTES));
            *piece = bytes.as_ptr().cast_mut().cast();
        }
        for (piece, bytes) in pieces[data.len()..].iter_mut().zip(parity) {
            assert!(bytes.len() == len && (bytes.as_ptr() as usize).is_multiple_of(ALIGN_BYTES));
            *piece = bytes.as_mut_ptr().cast();
        }
        // SAFETY: as many pieces as are passed, each of the length that is passed; only the last, which are parity, are
        // written to.
        let failed = unsafe { function(count as c_int, len as c_int, pieces.as_mut_ptr()) };
        assert_eq!(failed, 0, "the library refuses {} pieces of {len}", data.len());
    }

    /// P of at least two columns.
    pub fn encode_p(&self, data: &[&[u8]], p: &mut [u8]) {
        Self::generate(self.xor_gen, data, &mut [p]);
    }

    /// P and Q of at least two columns.
    pub fn encode_pq(&self, data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
        Self::generate(self.pq_gen, data, &mut [p, q]);
    }

    /// The first two rows of parity of its Reed-Solomon matrix: all ones, and the powers of two.
    pub fn parity_rows(&self, columns: usize) -> Vec<u8> {
        let mut matrix = vec![0; (columns + 2) * columns];
        // SAFETY: a matrix of as many rows and columns as passed.
        unsafe { (self.gf_gen_rs_matrix)(matrix.as_mut_ptr(), (columns + 2) as c_int, columns as c_int) };
        matrix.split_off(columns * columns)
    }

    /// The inverse of a square matrix that has one.
    pub fn inverse(&self, matrix: &[u8], size: usize) -> Vec<u8> {
        assert_eq!(matrix.len(), size * size);
        let (mut from, mut into) = (matrix.to_vec(), vec![0; size * size]);
        // SAFETY: two square matrices of the size that is passed.
        let failed = unsafe { (self.gf_invert_matrix)(from.as_mut_ptr(), into.as_mut_ptr(), size as c_int) };
        assert_eq!(failed, 0, "the matrix has no inverse");
        into
    }

    /// Prepares rows of constants.
    pub fn tables(&self, rows: &[u8], columns: usize) -> Tables {
        assert!(rows.len().is_multiple_of(columns) && !rows.is_empty());
        let count = rows.len() / columns;
        let mut bytes = vec![0; 32 * rows.len()];
        // SAFETY: 32 bytes for each constant, as its header asks for.
        unsafe { (self.ec_init_tables)(columns as c_int, count as c_int, rows.as_ptr(), bytes.as_mut_ptr()) };
        Tables { columns, rows: count, bytes }
    }

    /// Multiplies sources by rows of constants.
    pub fn multiply(&self, tables: &Tables, sources: &[&[u8]], into: &mut [&mut [u8]]) {
        let len = into[0].len();
        assert!(
            sources.len() == tables.columns && into.len() == tables.rows && sources.len() + into.len() <= MAX_PIECES
        );
        let (mut from, mut to) = ([std::ptr::null(); MAX_PIECES], [std::ptr::null_mut(); MAX_PIECES]);
        for (piece, bytes) in from.iter_mut().zip(sources) {
            assert_eq!(bytes.len(), len);
            *piece = bytes.as_ptr();
        }
        for (piece, bytes) in to.iter_mut().zip(into.iter_mut()) {
            assert_eq!(bytes.len(), len);
            *piece = bytes.as_mut_ptr();
        }
        let [len, columns, rows] = [len, tables.columns, tables.rows].map(|count| count as c_int);
        // SAFETY: as many pieces as are passed, each of the length that is passed, and tables made for them.
        unsafe { (self.ec_encode_data)(len, columns, rows, tables.bytes.as_ptr(), from.as_ptr(), to.as_ptr()) };
    }
}

/// Bytes on a 4 KiB boundary.
pub struct Aligned {
    memory: Vec<u8>,
    at: usize,
    len: usize,
}

impl Aligned {
    /// Zeros.
    pub fn new(len: usize) -> Self {
        let memory = vec![0; len + 4096];
        let at = memory.as_ptr().align_offset(4096);
        Self { memory, at, len }
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.at..self.at + self.len]
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.at..self.at + self.len]
    }
}
