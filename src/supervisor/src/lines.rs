//! Puts a mark before each line of a stream that arrives in pieces.

/// A line that is longer than this is ended here, and its rest becomes the next one: memory must not grow with what a program
/// writes.
pub const LONGEST: usize = 64 * 1024;

/// One stream.
#[derive(Debug, Clone)]
pub struct Lines {
    mark: Vec<u8>,
    /// The beginning of a line whose end has not arrived yet.
    partial: Vec<u8>,
}

impl Lines {
    /// A stream with this before each line.
    pub fn new(mark: &str) -> Self {
        Self { mark: mark.into(), partial: Vec::new() }
    }

    /// Takes in a piece; whole lines are added to `out`.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end + 1);
            self.hold(line, out);
            if !self.partial.is_empty() {
                self.put(out);
            }
            rest = after;
        }
        self.hold(rest, out);
    }

    /// The stream has ended; so has its last line, whether or not it says so.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.partial.push(b'\n');
            self.put(out);
        }
    }

    fn hold(&mut self, part: &[u8], out: &mut Vec<u8>) {
        let mut rest = part;
        while self.partial.len() + rest.len() > LONGEST {
            let (now, later) = rest.split_at(LONGEST.saturating_sub(self.partial.len()).min(rest.len()));
            if later == b"\n" {
                break;
            }
            self.partial.extend_from_slice(now);
            self.partial.push(b'\n');
            self.put(out);
            rest = later;
        }
        self.partial.extend_from_slice(rest);
    }

    fn put(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.mark);
        out.append(&mut self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> String {
        let (mut lines, mut out) = (Lines::new("> "), Vec::new());
        for piece in pieces {
            lines.push(piece, &mut out);
        }
        lines.finish(&mut out);
        lines.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn lines_in_any_pieces() {
        assert_eq!(all(&[b"a\nb", b"c\n", b"\n"]), "> a\n> bc\n> \n");
        assert_eq!(all(&[b"no end"]), "> no end\n");
        assert_eq!(all(&[b"", b"\n", b""]), "> \n");
        assert_eq!(all(&[]), "");
    }

    #[test]
    fn a_line_without_an_end_does_not_fill_the_memory() {
        let long = vec![b'x'; LONGEST * 2 + 10];
        let out = all(&[&long, b"\ny\n"]);
        let lengths: Vec<usize> = out.lines().map(str::len).collect();
        assert_eq!(lengths, [LONGEST + 2, LONGEST + 2, 12, 3]);
        let just = [vec![b'x'; LONGEST], b"\n".to_vec()].concat();
        assert_eq!(all(&[&just]).lines().count(), 1);
    }

    /// Whatever the pieces are, the text is the same.
    #[test]
    fn pieces_do_not_matter() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let text: Vec<u8> =
                (0..random.usize(0..400)).map(|_| *b"ab\n".get(random.usize(0..3)).unwrap()).collect();
            let mut pieces = Vec::new();
            let mut rest = &text[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(random.usize(1..=rest.len()));
                pieces.push(piece);
                rest = after;
            }
            assert_eq!(all(&pieces), all(&[&text]));
            assert_eq!(
                all(&[&text]).replace("> ", "").trim_end_matches('\n'),
                String::from_utf8_lossy(&text).trim_end_matches('\n')
            );
        }
    }
}
