//! A session of iSCSI that takes several requests at once.

use std::sync::Arc;

use crate::flow::{Pipe, Request};
use crate::iscsi::cdb;
use crate::iscsi::initiator::{Command, Session};
use crate::iscsi::login::Login;

/// A session on a logical unit with blocks of 512 bytes.
pub struct Unit {
    session: Session,
    lun: u16,
    nothing: Arc<[u8]>,
}

impl Unit {
    /// Logs in for `lun`.
    ///
    /// # Panics
    /// If it cannot.
    pub fn new(login: &Login, lun: u16) -> Self {
        Self { session: Session::of(login, &[lun]), lun, nothing: Arc::new([]) }
    }
}

impl Pipe for Unit {
    fn send(&mut self, request: Request, data: &Arc<[u8]>) -> Result<(), String> {
        let (block, blocks) = (request.offset / 512, (request.len / 512) as u32);
        let command = if request.write {
            let data = if data.len() == request.len { Arc::clone(data) } else { data[..request.len].into() };
            Command { lun: self.lun, cdb: cdb::write(block, blocks).to_vec(), data_out: data, read_len: 0 }
        } else {
            let data_out = Arc::clone(&self.nothing);
            Command { lun: self.lun, cdb: cdb::read(block, blocks).to_vec(), data_out, read_len: request.len }
        };
        self.session.submit(command).map(|_| ()).map_err(|error| error.to_string())
    }

    fn finish_one(&mut self) -> Result<(), String> {
        let (_, answer) = self.session.next_answer().map_err(|error| error.to_string())?;
        if answer.status != 0 {
            return Err(format!("{answer:?}"));
        }
        self.session.give_back(answer.data);
        Ok(())
    }
}
