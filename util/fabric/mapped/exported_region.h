// Registered memory of a memory node, which peers reach one-sided.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "util/fabric/fabric.h"

namespace dlsm {

// A range of this process's memory that peers reach one-sided. Owns the mapping.
class ExportedRegion {
 public:
  virtual ~ExportedRegion() = default;
  virtual char* data() const = 0;
  virtual const RegionInfo& info() const = 0;
  // What a person should know of this memory: "huge pages", "no huge pages: <why and remedy>".
  virtual const std::string& note() const = 0;
  // Takes all pages now, as far as the machine can spare them, and not when each is written; the
  // note says what it could not. To be called before others look at the note.
  virtual void TakeAllPages() = 0;
};

struct RegionOptions {
  RegionId id{};
  uint64_t bytes = 0;
  FabricKind kind = FabricKind::kLocal;  // kShm: a file in /dev/shm; others: anonymous.
  bool huge_pages = true;                // Asked for; a refusal is noted, not an error.
  int numa_node = kNoNumaNode;           // Where its pages come from.
  std::string name;                      // Part of the shm file's name.
  std::string root = "/";                // See MemoryLimit().
  // A file that is open, at least `bytes` long, which is to be the memory; it stays open as long as
  // the region, and `file_path` names it. -1: the region makes its own.
  int file = -1;
  std::string file_path;
};

// Maps memory; fails with a Status that names the remedy when there is not enough of it. Files that
// servers killed earlier have left in /dev/shm (nobody holds their lock) are removed first.
Status CreateRegion(const RegionOptions& options, std::unique_ptr<ExportedRegion>* region);

}  // namespace dlsm
