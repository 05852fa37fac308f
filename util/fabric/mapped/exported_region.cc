#include "util/fabric/mapped/exported_region.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "util/fabric/mapped/memory_mapping.h"
#include "util/fabric/mapped/shm_file.h"
#include "util/format_bytes.h"
#include "util/memory/huge_memory.h"
#include "util/memory/memory_pages.h"
#include "util/numa.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// What a person should know of a region.
struct Notes {
  std::string pages;  // See AdviseHugePages().
  std::string place;  // Empty, or on which NUMA node it is.

  std::string Text() const { return place.empty() ? pages : pages + "; " + place; }
};

class MappedExport : public ExportedRegion {
 public:
  MappedExport(ShmFile file, MemoryMapping mapping, RegionInfo info, const RegionOptions& options,
               Notes notes)
      : file_(std::move(file)),
        mapping_(std::move(mapping)),
        info_(std::move(info)),
        is_on_disk_(options.file >= 0),
        huge_pages_(options.huge_pages),
        numa_node_(options.numa_node),
        notes_(std::move(notes)),
        note_(notes_.Text()) {}

  // Others may take memory at the same time, so what there is left is asked for again and again.
  void TakeAllPages() override {
    if (is_on_disk_) return;  // Its pages are the disk's, and taken as they are used.
    const uint64_t spared = std::max(AvailableMemory("/", numa_node_) / 16, uint64_t{256} << 20);
    std::atomic<bool> spares{true};
    const TakenPages taken =
        TakePagesInParallel(mapping_.data(), mapping_.bytes(), huge_pages_, [&](size_t under_way) {
          const bool enough = AvailableMemory("/", numa_node_) > spared + under_way;
          if (!enough) spares = false;
          return enough;
        });
    if (taken.huge_bytes > 0) {
      notes_.pages = "huge pages";
      if (taken.huge_bytes / kHugePageBytes < taken.bytes / kHugePageBytes) {
        notes_.pages +=
            fmt::format(" for {}, the kernel had no more", FormatBytes(taken.huge_bytes));
      }
    }
    note_ = notes_.Text();
    if (taken.bytes == mapping_.bytes()) return;
    note_ +=
        fmt::format("; {} taken at once, the rest when it is written: {}", FormatBytes(taken.bytes),
                    spares ? "the kernel takes no more in advance"
                           : FormatBytes(AvailableMemory("/", numa_node_)) + " are available");
  }

  char* data() const override { return mapping_.data(); }
  const RegionInfo& info() const override { return info_; }
  const std::string& note() const override { return note_; }

 private:
  const ShmFile file_;  // Not valid for anonymous memory.
  const MemoryMapping mapping_;
  const RegionInfo info_;
  const bool is_on_disk_;
  const bool huge_pages_;
  const int numa_node_;
  Notes notes_;
  std::string note_;
};

// Pages are taken when first written, so the kernel would let any size pass and kill the process
// later.
Status CheckFits(uint64_t bytes, uint64_t limit) {
  if (bytes <= limit) return Status::OK();
  return Status::IOError(fmt::format(
      "{} bytes of memory were asked for, but this process may have {}, by what the machine has or "
      "its control groups (a container's) allow; ask for less",
      bytes, limit));
}

Status MapMemory(const RegionOptions& options, ShmFile* file, MemoryMapping* mapping) {
  if (options.file >= 0) return MemoryMapping::File(options.file, options.bytes, mapping);
  DLSM_RETURN_IF_ERROR(CheckFits(options.bytes, MemoryLimit(options.root)));
  if (options.kind != FabricKind::kShm) return MemoryMapping::Anonymous(options.bytes, mapping);
  RemoveStaleShmFiles();
  DLSM_RETURN_IF_ERROR(ShmFile::Create(options.name, options.bytes, file));
  return MemoryMapping::File(file->descriptor(), options.bytes, mapping);
}

}  // namespace

Status CreateRegion(const RegionOptions& options, std::unique_ptr<ExportedRegion>* region) {
  if (options.bytes == 0) return Status::InvalidArgument("a memory region needs at least a byte");
  ShmFile file;
  MemoryMapping mapping;
  DLSM_RETURN_IF_ERROR(MapMemory(options, &file, &mapping));
  // Others write to files' memory, too, and no child gets a copy of that.
  if (options.kind == FabricKind::kVerbs) KeepFromChildren(mapping);
  Notes notes;
  if (options.file >= 0) {
    notes.pages = options.file_path;
  } else {
    notes.pages = options.huge_pages ? AdviseHugePages(mapping, options.kind == FabricKind::kShm)
                                     : "no huge pages: not asked for";
  }
  if (options.numa_node != kNoNumaNode) {
    DLSM_RETURN_IF_ERROR(
        BindMemory(mapping.data(), mapping.bytes(), options.numa_node, &notes.place));
  }
  const bool tells_file = options.file < 0 || options.kind == FabricKind::kShm;
  RegionInfo info{options.id, options.bytes,
                  !tells_file        ? ""
                  : options.file < 0 ? file.path()
                                     : options.file_path};
  *region = std::make_unique<MappedExport>(std::move(file), std::move(mapping), std::move(info),
                                           options, std::move(notes));
  return Status::OK();
}

}  // namespace dlsm
