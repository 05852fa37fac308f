// How dlsm_tool writes key/value pairs to a stream and reads them back. Two formats, both of which
// carry arbitrary bytes:
//
//   tsv      key TAB value NEWLINE, where within key and value
//              \t is a tab, \n a newline, \0 a zero byte, \\ a backslash;
//            every other byte stands for itself. The last newline may be missing.
//   binary   u32 key bytes | u32 value bytes | key | value, little-endian; repeated to the end.
//
// Readers hold one entry at a time and allocate no more than what has really arrived, bounded by
// the largest entry a database takes.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <ostream>
#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm::tool {

enum class EntryFormat : uint8_t { kTsv, kBinary };
// False if `name` is neither "tsv" nor "binary".
bool EntryFormatFromName(const std::string& name, EntryFormat* format);

// One thread at a time.
class EntryReader {
 public:
  virtual ~EntryReader() = default;
  // Sets *end if the stream ended where an entry could start; otherwise *key and *value, which stay
  // valid until the next call. InvalidArgument names the line or the entry that is malformed; no
  // call may follow an error or the end.
  virtual Status Next(Slice* key, Slice* value, bool* end) = 0;
};

// One thread at a time.
class EntryWriter {
 public:
  virtual ~EntryWriter() = default;
  virtual Status Write(const Slice& key, const Slice& value) = 0;
  // Hands everything written so far to the stream. IOError if the stream did not take it.
  virtual Status Flush() = 0;
};

// The stream outlives what is made.
std::unique_ptr<EntryReader> NewEntryReader(EntryFormat format, std::istream* from);
std::unique_ptr<EntryWriter> NewEntryWriter(EntryFormat format, std::ostream* to);

}  // namespace dlsm::tool
