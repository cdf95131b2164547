//! `--otlp-file`: OTLP/JSON, one `ExportTraceServiceRequest` per line, as the OpenTelemetry collector's file exporter
//! writes them and its `otlpjsonfile` receiver reads them.

use super::json;
use super::proto::ExportRequest;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use wirespan_model::Trace;

/// A file of OTLP/JSON lines. Every write hands a whole line to the kernel, so no data waits in the process: a reader
/// sees each batch at once, and a kill loses no written batch.
pub struct OtlpFile {
    file: File,
    line: Vec<u8>,
    /// Length of the file up to the last whole line.
    len: u64,
    spans: u64,
    dropped: u64,
}

impl OtlpFile {
    /// Creates the file, or empties it. Errors: as [`File::create`].
    pub fn create(path: &Path) -> io::Result<OtlpFile> {
        let file = File::create(path)?;
        Ok(OtlpFile { file, line: Vec::new(), len: 0, spans: 0, dropped: 0 })
    }

    /// Writes traces as one line. Errors: for example, the disk is full; then the spans are counted as dropped and the
    /// file is cut after the last whole line.
    pub fn write(&mut self, traces: &[Trace]) -> io::Result<()> {
        self.write_request(&super::encode_traces(traces))
    }

    /// Writes a request as one line; an empty request writes nothing. Errors: as [`OtlpFile::write`].
    pub fn write_request(&mut self, request: &ExportRequest) -> io::Result<()> {
        let spans: usize = request.resource_spans.iter().flat_map(|r| &r.scope_spans).map(|s| s.spans.len()).sum();
        if spans == 0 {
            return Ok(());
        }
        self.line.clear();
        json::write_request(request, &mut self.line);
        self.line.push(b'\n');
        if let Err(e) = self.file.write_all(&self.line) {
            self.dropped += spans as u64;
            // Half a line would make the next line unreadable too, so the file is cut. A pipe cannot be cut.
            let _ = self.file.set_len(self.len);
            let _ = io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.len));
            return Err(e);
        }
        self.len += self.line.len() as u64;
        self.spans += spans as u64;
        // Release a very large buffer, so that one big batch does not keep the memory.
        self.line.shrink_to(1 << 20);
        Ok(())
    }

    /// Makes what was written durable. Errors: as [`File::sync_data`]; a pipe is no error.
    pub fn sync(&mut self) -> io::Result<()> {
        match self.file.sync_data() {
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other,
        }
    }

    /// A second handle on the file, for syncing it on another thread: a sync may take as long as all pending writes of
    /// the machine.
    pub fn again(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Spans written.
    pub fn spans(&self) -> u64 {
        self.spans
    }

    /// Spans that could not be written.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use wirespan_model::{Span, SpanId, TraceId, TraceSpan};

    fn trace(n: u64) -> Trace {
        let span = |i| TraceSpan {
            span: Arc::new(Span { id: SpanId(i), ..Span::default() }),
            link: None,
            depth: 0,
            links: Vec::new(),
        };
        Trace { id: TraceId([7; 16]), spans: (1..=n).map(span).collect(), complete: true }
    }

    #[test]
    fn each_batch_is_a_line_and_is_there_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spans.jsonl");
        let mut f = OtlpFile::create(&path).unwrap();
        f.write(&[trace(2), trace(1)]).unwrap();
        f.write(&[]).unwrap();
        f.write(&[trace(4)]).unwrap();
        // The file was neither dropped nor synced, and a reader still finds it complete.
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<ExportRequest> = text.lines().map(|l| json::read_request(l.as_bytes()).unwrap()).collect();
        let spans = |r: &ExportRequest| r.resource_spans[0].scope_spans[0].spans.len();
        assert_eq!(lines.iter().map(spans).collect::<Vec<_>>(), [3, 4]);
        assert!(text.ends_with('\n'));
        f.sync().unwrap();
        assert_eq!((f.spans(), f.dropped()), (7, 0));
    }

    #[test]
    fn a_full_disk_is_an_error_and_is_counted() {
        let mut f = OtlpFile::create(Path::new("/dev/full")).unwrap();
        assert_eq!(f.write(&[trace(3)]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!((f.spans(), f.dropped()), (0, 3));
    }
}
