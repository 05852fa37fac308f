// Iterators of the database behind LevelDB's interface.
#pragma once

#include <memory>

#include "dLSM/iterator.h"
#include "leveldb/iterator.h"

namespace dlsm::compat {

std::unique_ptr<leveldb::Iterator> WrapIterator(std::unique_ptr<dlsm::Iterator> iterator);

}  // namespace dlsm::compat
