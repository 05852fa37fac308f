// What a database knows of a table: where its image lies, what it holds.
//
//   image in remote memory, one contiguous span:  | data | index | filter |
//
// Index and filter together are the table's resident part: a compute node keeps a copy of it, the
// memory node's copy lets anyone who knows this meta open the table.
#pragma once

#include <cstdint>
#include <string>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "table/internal_key.h"
#include "table/key_list.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

struct TableMeta {
  uint64_t number = 0;  // Unique within its database; 0 until the database has named it.
  TableFormat format = TableFormat::kByteAddressable;
  RemoteSpan image;  // Exactly the image's bytes.
  uint64_t data_bytes = 0;
  uint64_t index_bytes = 0;
  uint64_t filter_bytes = 0;
  uint64_t entries = 0;
  uint64_t deletions = 0;
  SequenceNumber sequence_min = 0;
  SequenceNumber sequence_max = 0;
  // Range tombstones with numbers up to this one hide nothing in the table: what they hid is gone.
  SequenceNumber tombstones_applied = 0;
  std::string smallest;  // Internal keys between which all others are, see table_bounds.h.
  std::string largest;

  RemoteSpan data_span() const { return image.Sub(0, data_bytes); }
  RemoteSpan resident_span() const { return image.Sub(data_bytes, index_bytes + filter_bytes); }

  // Both keys go by the writer, and come by the reader, which belong to the list that the meta is
  // a part of.
  void EncodeTo(std::string* to, KeyWriter* keys) const;
  // Takes its bytes off *from. Checks that sizes add up to the image and that both keys are valid.
  Status DecodeFrom(Slice* from, KeyReader* keys);
};

}  // namespace dlsm
