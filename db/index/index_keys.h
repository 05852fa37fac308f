// The keys of index entries in the database, and what is recorded about an index.
//
//   entry   prefix | 'e' | name | index key | record's key           value: empty
//   state   prefix | 's' | name                                      value: | version 1 | upkeep 1
//   |
//                                                                           ready 1 | crc 4 |
//
// Name and index key are escaped: a zero byte is 00 FF, and 00 01 ends them. So entries are in the
// order of index keys, then of records' keys, whatever bytes these have. All of the entries with
// one index key begin with the same bytes. crc is the CRC32C of the three bytes before it.
#pragma once

#include <string>

#include "dLSM/secondary_index.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

void AppendOrdered(std::string* to, const Slice& bytes);
// Takes what AppendOrdered() has made off the front of *from. False if that is not there.
bool TakeOrdered(Slice* from, std::string* bytes);

// Of all entries of an index.
std::string IndexEntriesPrefix(const Slice& prefix, const Slice& name);
std::string IndexStatesPrefix(const Slice& prefix);
std::string IndexStateKey(const Slice& prefix, const Slice& name);
// The first key behind all that begin with `prefix`, which is not empty; empty if there is none.
std::string KeyBehind(std::string prefix);

// `entries`: IndexEntriesPrefix() of the index.
std::string IndexEntryKey(const std::string& entries, const Slice& index_key, const Slice& key);
// False if `bytes` are none. *key points into them.
bool DecodeIndexEntry(const std::string& entries, const Slice& bytes, std::string* index_key,
                      Slice* key);

struct IndexState {
  std::string Encode() const;
  // Corruption, or NotSupported if a later version wrote it.
  Status Decode(const Slice& bytes);

  IndexUpkeep upkeep = IndexUpkeep::kEager;
  bool ready = false;
};

}  // namespace dlsm
