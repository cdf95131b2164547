//! A masked statement → the attributes of a request.

use super::{Masker, Statement};
use wirespan_model::{AttrVal, Message};

/// The known facts of a statement, masked; empty where unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Described<'a> {
    /// Masked text.
    pub text: &'a str,
    /// Verb.
    pub operation: &'static str,
    /// First table.
    pub collection: &'a str,
    /// Stored procedure.
    pub procedure: &'a str,
    /// Verbs and tables.
    pub summary: &'a str,
}

impl<'a> From<&'a Masker> for Described<'a> {
    fn from(m: &'a Masker) -> Self {
        Described {
            text: m.text(),
            operation: m.operation(),
            collection: m.collection(),
            procedure: m.procedure(),
            summary: m.summary(),
        }
    }
}

impl<'a> From<&'a Statement> for Described<'a> {
    fn from(s: &'a Statement) -> Self {
        Described {
            text: &s.text,
            operation: s.operation,
            collection: &s.collection,
            procedure: &s.procedure,
            summary: &s.summary,
        }
    }
}

impl<'a> Described<'a> {
    /// Writes the attributes of a request to the database `system`. `operation` names the protocol's operation if that
    /// is not to run the statement (`PREPARE`), or if the statement is unknown; otherwise the statement's verb wins.
    pub fn write(&self, m: &mut Message<'a>, system: &'static str, operation: &'static str, namespace: &'a str) {
        m.operation = if operation.is_empty() { self.operation } else { operation };
        let texts = [
            ("db.namespace", namespace),
            ("db.operation.name", m.operation),
            ("db.collection.name", self.collection),
            ("db.stored_procedure.name", self.procedure),
            ("db.query.summary", self.summary),
            ("db.query.text", self.text),
        ];
        m.attrs.push(("db.system.name", AttrVal::from(system)));
        for (name, text) in texts {
            if !text.is_empty() {
                m.attrs.push((name, AttrVal::from(text)));
            }
        }
        m.target = if self.collection.is_empty() { self.procedure } else { self.collection }.into();
    }
}
