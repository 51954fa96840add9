package gradstep

/*
#include <stdlib.h>
#include <gradstep/c/gradstep.h>

// C makes the options, because Go must not pass a structure with pointers to Go arrays.
static gradstep_load_options load_options(int32_t missing, int32_t unexpected, int32_t rows, uint64_t renamed, const char* const* from,
                                          const char* const* to) {
    gradstep_load_options options = GRADSTEP_LOAD_OPTIONS_INIT;
    options.missing = missing;
    options.unexpected = unexpected;
    options.rows = rows;
    options.renamed_count = renamed;
    options.renamed_from = from;
    options.renamed_to = to;
    return options;
}
static gradstep_status load_file_with(gradstep_parameter* const* parameters, const char* const* names, uint64_t n, const char* path,
                                      int32_t missing, int32_t unexpected, int32_t rows, uint64_t renamed, const char* const* from,
                                      const char* const* to, int32_t* outcomes, char* ignored, uint64_t ignored_bytes,
                                      uint64_t* ignored_written, gradstep_error* error) {
    gradstep_load_options const options = load_options(missing, unexpected, rows, renamed, from, to);
    return gradstep_parameters_load_file_with(parameters, names, n, path, &options, outcomes, ignored, ignored_bytes, ignored_written,
                                              error);
}
static gradstep_status load_table_with(gradstep_table* table, const char* path, int32_t missing, int32_t unexpected, int32_t rows,
                                       uint64_t renamed, const char* const* from, const char* const* to, int32_t* outcome,
                                       gradstep_error* error) {
    gradstep_load_options const options = load_options(missing, unexpected, rows, renamed, from, to);
    return gradstep_table_load_file(table, path, &options, outcome, error);
}
*/
import "C"

import (
	"runtime"
	"sort"
	"strings"
	"unsafe"
)

// SaveFile writes named parameters to a safetensors file: values, state and clocks, so that a run can resume bit for bit. C++,
// Python and any other reader of the format can open it. The file replaces the previous one when it is complete and on the
// disk. If the system cannot write it, the code is IOError.
func SaveFile(path string, parameters map[string]AnyParameter) error {
	return withNames(path, parameters, func(handles **C.gradstep_parameter, names **C.char, n C.uint64_t, path *C.char,
		said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_parameters_save_file(handles, names, n, path, said)
	})
}

// LoadFile loads a file of SaveFile into parameters with exactly the same names, shapes, element types and rules. If they
// differ, nothing changes. If the system fails to read in the middle of the data (IOError), a part has been loaded.
// LoadFileWith can load a part of a file, or parameters with other names.
func LoadFile(path string, parameters map[string]AnyParameter) error {
	return withNames(path, parameters, func(handles **C.gradstep_parameter, names **C.char, n C.uint64_t, path *C.char,
		said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_parameters_load_file(handles, names, n, path, said)
	})
}

// LoadOptions are the options of LoadFileWith. With the zero value it works like LoadFile.
type LoadOptions struct {
	KeepMissing      bool // a parameter that is not in the file does not change; otherwise it is an error
	IgnoreUnexpected bool // a name in the file without a parameter is not loaded; otherwise it is an error
	// If the number of rows differs from the file, the rows that both have are loaded with their state, and additional rows of
	// the parameter do not change; otherwise it is an error.
	ResizeRows bool
	// Rename returns the name of the parameter for a name in the file; nil: the same name.
	Rename func(name string) string
}

// LoadReport is the result of LoadFileWith. It contains each name once, in the order of the bytes.
type LoadReport struct {
	Loaded  []string // parameters that were loaded completely
	Resized []string // parameters with another number of rows than the file
	Kept    []string // parameters that are not in the file, and did not change
	Ignored []string // names in the file without a parameter
}

// LoadFileWith loads a file of SaveFile with options: a part of it, other names, or other numbers of rows. If it rejects the
// file, nothing changes.
func LoadFileWith(path string, parameters map[string]AnyParameter, options LoadOptions) (LoadReport, error) {
	from, to, err := options.names(path)
	if err != nil {
		return LoadReport{}, err
	}
	bytes := 1
	for _, name := range from {
		bytes += len(name) + 1
	}
	renamed, fromC, toC, free := renames(from, to)
	defer free()
	ignored := make([]byte, bytes)
	var written C.uint64_t
	var outcomes []C.int32_t
	names := sortedNames(parameters)
	err = withNames(path, parameters, func(handles **C.gradstep_parameter, names **C.char, n C.uint64_t, path *C.char,
		said *C.gradstep_error) C.gradstep_status {
		outcomes = make([]C.int32_t, n+1)
		return C.load_file_with(handles, names, n, path, toggle(options.KeepMissing, C.GRADSTEP_MISSING_KEEP),
			toggle(options.IgnoreUnexpected, C.GRADSTEP_UNEXPECTED_IGNORE), toggle(options.ResizeRows, C.GRADSTEP_ROWS_RESIZE),
			renamed, &fromC[0], &toC[0], &outcomes[0], (*C.char)(unsafe.Pointer(&ignored[0])), C.uint64_t(bytes), &written,
			said)
	})
	if err != nil {
		return LoadReport{}, err
	}
	report := LoadReport{Ignored: splitNames(string(ignored[:written]))}
	for i, name := range names {
		report.add(name, outcomes[i])
	}
	return report, nil
}

func (r *LoadReport) add(name string, outcome C.int32_t) {
	switch outcome {
	case C.GRADSTEP_KEPT:
		r.Kept = append(r.Kept, name)
	case C.GRADSTEP_RESIZED:
		r.Resized = append(r.Resized, name)
	default:
		r.Loaded = append(r.Loaded, name)
	}
}

// names returns the names in a file, and the name of the parameter for each of them.
func (o LoadOptions) names(path string) (inFile, here []string, err error) {
	inFile, err = FileNames(path)
	if err != nil || o.Rename == nil {
		return inFile, inFile, err
	}
	for _, name := range inFile {
		renamed := o.Rename(name)
		if err := checkText("Rename of "+name, renamed); err != nil {
			return nil, nil, err
		}
		here = append(here, renamed)
	}
	return inFile, here, nil
}

// renames returns the pairs of names that differ, for C: their number, two arrays, and a function that frees them.
func renames(from, to []string) (C.uint64_t, []*C.char, []*C.char, func()) {
	var before, after []string
	for i := range from {
		if from[i] != to[i] {
			before, after = append(before, from[i]), append(after, to[i])
		}
	}
	fromC, freeFrom := cTexts(before)
	toC, freeTo := cTexts(after)
	return C.uint64_t(len(before)), fromC, toC, func() { freeFrom(); freeTo() }
}

// nameOfTable is the name of a table in its file.
const nameOfTable = "values"

// SaveFile writes the table to a safetensors file, with the name "values": values, state, pending steps and clock, so that a run
// can resume bit for bit. See the function [SaveFile].
func (t *table[T, I]) SaveFile(path string) error {
	return t.withPath(path, func(path *C.char, said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_table_save_file(t.c, path, said)
	})
}

// LoadFile loads a file of the method SaveFile, or of a C++ table. A table with fewer rows than the file grows, and one with more
// rows is an error (BadSize). A keyed table gets the rows of the file. If it returns an error, nothing has changed.
func (t *table[T, I]) LoadFile(path string) error {
	return t.withPath(path, func(path *C.char, said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_table_load_file(t.c, path, nil, nil, said)
	})
}

// LoadFileWith loads a file with options. To load the table from a file of several tables, which a C++ program can write, rename
// its name there to "values", and set IgnoreUnexpected. ResizeRows has no effect: see LoadFile. If it returns an error, nothing has
// changed.
func (t *table[T, I]) LoadFileWith(path string, options LoadOptions) (report LoadReport, err error) {
	if err = t.check(); err != nil {
		return report, err
	}
	from, to, err := options.names(path)
	if err != nil {
		return report, err
	}
	renamed, fromC, toC, free := renames(from, to)
	defer free()
	var outcome C.int32_t
	if err = t.withPath(path, func(path *C.char, said *C.gradstep_error) C.gradstep_status {
		return C.load_table_with(t.c, path, toggle(options.KeepMissing, C.GRADSTEP_MISSING_KEEP),
			toggle(options.IgnoreUnexpected, C.GRADSTEP_UNEXPECTED_IGNORE), toggle(options.ResizeRows, C.GRADSTEP_ROWS_RESIZE),
			renamed, &fromC[0], &toC[0], &outcome, said)
	}); err != nil {
		return report, err
	}
	report.add(nameOfTable, outcome)
	for i, name := range to {
		if name != nameOfTable {
			report.Ignored = append(report.Ignored, from[i])
		}
	}
	return report, nil
}

func (t *table[T, I]) withPath(path string, f func(*C.char, *C.gradstep_error) C.gradstep_status) error {
	if err := checkText("the path", path); err != nil {
		return err
	}
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))
	return t.call(func(s *scratch) C.gradstep_status { return f(cPath, &s.said) })
}

func toggle(is bool, value C.int32_t) C.int32_t {
	if is {
		return value
	}
	return 0
}

// FileNames returns the names of the parameters in a file, in the order of their bytes. It reads only the header of the file.
func FileNames(path string) ([]string, error) {
	if err := checkText("the path", path); err != nil {
		return nil, err
	}
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))
	said := newError()
	text, err := readText(func(buffer *C.char, bytes C.uint64_t, written *C.uint64_t) (C.gradstep_status, *C.gradstep_error) {
		return C.gradstep_file_names(cPath, buffer, bytes, written, &said), &said
	})
	if err != nil {
		return nil, err
	}
	return splitNames(text), nil
}

// splitNames splits names that each end with a byte 0.
func splitNames(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
}

func sortedNames(parameters map[string]AnyParameter) []string {
	names := make([]string, 0, len(parameters))
	for name := range parameters {
		names = append(names, name)
	}
	sort.Strings(names) // so that equal parameters give equal files
	return names
}

// cTexts copies texts to one block of C memory. It returns a pointer to each text (at least one), and a function that frees them.
func cTexts(texts []string) ([]*C.char, func()) {
	bytes := 1
	for _, text := range texts {
		bytes += len(text) + 1
	}
	memory := C.malloc(C.size_t(bytes)) // cgo's malloc ends the program if it fails
	all := unsafe.Slice((*byte)(memory), bytes)
	at, pointers := 0, make([]*C.char, len(texts)+1)
	for i, text := range texts {
		pointers[i] = (*C.char)(unsafe.Pointer(&all[at]))
		at += copy(all[at:], text)
		all[at] = 0
		at++
	}
	return pointers, func() { C.free(memory) }
}

func withNames(path string, parameters map[string]AnyParameter,
	f func(**C.gradstep_parameter, **C.char, C.uint64_t, *C.char, *C.gradstep_error) C.gradstep_status) error {
	names := sortedNames(parameters)
	if err := checkText("the path", path); err != nil {
		return err
	}
	n, said := len(names), newError()
	handles := make([]*C.gradstep_parameter, n+1)
	for i, name := range names {
		if err := checkText("a name", name); err != nil {
			return err
		}
		p := baseOf(parameters[name])
		if p == nil {
			return notMade("parameter "+name, "NewParameter or NewRows")
		}
		if p.check() != nil {
			return closed("parameter " + name)
		}
		handles[i] = p.c
	}
	cNames, free := cTexts(append(names, path))
	defer free()
	status := f(&handles[0], &cNames[0], C.uint64_t(n), cNames[n], &said)
	runtime.KeepAlive(parameters)
	return errorOf(status, &said)
}
