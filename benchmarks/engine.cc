#include "benchmarks/engine.h"

#include <fmt/core.h>

#include <functional>

namespace dlsm::bench {
namespace {

struct Maker {
  const char* name;
  std::function<std::unique_ptr<Engine>(const EngineOptions&)> make;
};

std::vector<Maker> Makers() {
  std::vector<Maker> makers;
  makers.push_back({"dlsm", NewDlsmEngine});
#ifdef DLSM_BENCH_ROCKSDB
  makers.push_back({"rocksdb", [](const EngineOptions& o) { return NewRocksdbEngine(o, false); }});
  makers.push_back(
      {"rocksdb_mmap", [](const EngineOptions& o) { return NewRocksdbEngine(o, true); }});
#endif
#ifdef DLSM_BENCH_LEVELDB
  makers.push_back({"leveldb", NewLeveldbEngine});
#endif
#ifdef DLSM_BENCH_SQLITE
  makers.push_back({"sqlite", NewSqliteEngine});
#endif
  return makers;
}

}  // namespace

TreeState TreeOfLevels(const std::vector<uint64_t>& tables_at_level) {
  TreeState tree;
  if (tables_at_level.empty()) return tree;
  const uint64_t level0 = tables_at_level[0];
  uint64_t tables = level0;
  uint64_t components = level0;
  for (size_t level = 1; level < tables_at_level.size(); ++level) {
    tables += tables_at_level[level];
    if (tables_at_level[level] > 0) ++components;
  }
  tree.components = components;
  tree.tables = tables;
  tree.level0_tables = level0;
  return tree;
}

std::vector<std::string> EngineNames() {
  std::vector<std::string> names;
  for (const Maker& maker : Makers()) names.emplace_back(maker.name);
  return names;
}

Status NewEngine(const EngineOptions& options, std::unique_ptr<Engine>* engine) {
  std::string allowed;
  for (const Maker& maker : Makers()) {
    if (options.engine == maker.name) {
      *engine = maker.make(options);
      return Status::OK();
    }
    allowed += std::string(allowed.empty() ? "" : ", ") + maker.name;
  }
  return Status::InvalidArgument(
      fmt::format("--engine={}: this program was built with {}", options.engine, allowed));
}

}  // namespace dlsm::bench
