// What GetProperty() answers. Of several shards: the sum, or what is the most where a sum says
// nothing, or one after the other; of several memory nodes likewise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "db/nodes/link_properties.h"
#include "db/tree/version.h"

namespace dlsm {

class DbImpl;
class MemoryNodeLink;

// LevelDB's names of properties mean those of this library.
std::string OwnPropertyName(const Slice& property);

class Properties {
 public:
  explicit Properties(DbImpl& db) : db_(db) {}
  // False if there is no such property.
  bool Get(const Slice& property, std::string* value) const;

 private:
  using VersionRef = std::shared_ptr<const Version>;

  std::vector<VersionRef> Versions() const;
  uint64_t Sum(const std::function<uint64_t(const Version&)>& of_shard) const;
  Links LinksOf() const;

  std::string Shards() const;
  std::string Guards() const;
  std::string Components(bool expected) const;
  std::string BackgroundError() const;
  std::string Stats() const;
  std::string Levels() const;
  std::string Stalls() const;
  struct MemtableBytes {
    size_t entries = 0;
    size_t filters = 0;
  };
  MemtableBytes BytesOfMemtables() const;
  // On the compute node, of all that the handle uses; also what others have in the same block
  // cache.
  uint64_t MemoryBytes() const;
  std::string Memory() const;
  std::string Numa() const;
  std::string MergeScheduleInForce() const;
  bool TablesAtLevel(const Slice& level, std::string* value) const;

  DbImpl& db_;
};

}  // namespace dlsm
