package gradstep

import (
	"io"
)

// WriteTo writes the bytes of MarshalBinary. It returns the errors of the writer as they are.
func (p *parameter) WriteTo(to io.Writer) (int64, error) { return writeState(to, p.MarshalBinary) }

// ReadFrom reads to the end, and passes the bytes to UnmarshalBinary. It returns the errors of the reader as they are.
func (p *parameter) ReadFrom(from io.Reader) (int64, error) {
	return readState(from, p.UnmarshalBinary)
}

// WriteTo writes the bytes of MarshalBinary. It returns the errors of the writer as they are.
func (t *table[T, I]) WriteTo(to io.Writer) (int64, error) { return writeState(to, t.MarshalBinary) }

// ReadFrom reads to the end, and passes the bytes to UnmarshalBinary. It returns the errors of the reader as they are.
func (t *table[T, I]) ReadFrom(from io.Reader) (int64, error) {
	return readState(from, t.UnmarshalBinary)
}

// WriteChanges writes the bytes of ChangedSince, without a copy. It returns the errors of the writer as they are.
func (t *KeyedTable[T]) WriteChanges(to io.Writer, step int64, content RowContent) (n int64, err error) {
	failed := t.changedSince(step, content, func(changes []byte) {
		var written int
		written, err = to.Write(changes)
		n = int64(written)
	})
	if failed != nil {
		return 0, failed
	}
	return n, err
}

// ReadChanges reads to the end, and passes the bytes to ApplyChanges. It returns the errors of the reader as they are.
func (t *KeyedTable[T]) ReadChanges(from io.Reader) (int64, error) {
	return readState(from, t.ApplyChanges)
}

func writeState(to io.Writer, state func() ([]byte, error)) (int64, error) {
	bytes, err := state()
	if err != nil {
		return 0, err
	}
	n, err := to.Write(bytes)
	return int64(n), err
}

func readState(from io.Reader, use func([]byte) error) (int64, error) {
	bytes, err := io.ReadAll(from)
	if err != nil {
		return int64(len(bytes)), err
	}
	return int64(len(bytes)), use(bytes)
}
