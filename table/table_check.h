// Checks a whole table, without the comparator of its database: so a table can be checked where
// nobody knows how its keys are ordered.
#pragma once

#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "table/table_meta.h"

namespace dlsm {

// `image`: the bytes of meta.image. Checks every checksum, that the index leads to each record or
// block, and that there are as many entries as the meta says. The order of the keys is not checked.
// `comparator_name` is that of the database. Corruption says what is wrong, and at which offset of
// the image.
Status CheckTable(const std::string& comparator_name, const TableMeta& meta, const Slice& image);

}  // namespace dlsm
