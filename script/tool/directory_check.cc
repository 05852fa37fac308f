#include "script/tool/directory_check.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "db/log/log_reader.h"
#include "db/nodes/placed_manifest_store.h"
#include "db/nodes/shard_map.h"
#include "db/tree/manifest.h"
#include "memory_node/accounts/account_change.h"
#include "memory_node/accounts/byte_ranges.h"
#include "memory_node/accounts/own_memory.h"
#include "memory_node/store/directory.h"
#include "port/error_text.h"
#include "script/tool/finding.h"
#include "table/table_check.h"
#include "util/format_bytes.h"
#include "util/status_macros.h"

namespace dlsm::tool {
namespace {

constexpr const char* kRestore =
    "restore the directory from a copy, or destroy the database and fill it again";

// The region's file, mapped to be read.
class RegionFile {
 public:
  RegionFile() = default;
  RegionFile(const RegionFile&) = delete;
  RegionFile& operator=(const RegionFile&) = delete;
  ~RegionFile() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }

  Status Map(const Directory& directory, uint64_t bytes) {
    path_ = directory.region_path();
    if (bytes == 0) return Status::OK();  // The making of the directory was cut short.
    void* const mapped =
        ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, directory.region_descriptor(), 0);
    if (mapped == MAP_FAILED) {
      return Status::IOError(fmt::format("cannot map {}: {}", path_, port::ErrorText(errno)));
    }
    data_ = static_cast<char*>(mapped);
    bytes_ = bytes;
    return Status::OK();
  }

  // Unlike a load, it says so where a page cannot be read. Corruption if the span is not inside.
  Status Read(const RemoteSpan& span, Slice* read) const {
    if (span.offset > bytes_ || span.bytes > bytes_ - span.offset) {
      return Status::Corruption("lies outside the region");
    }
    *read = Slice(data_ + span.offset, span.bytes);
    if (span.bytes == 0) return Status::OK();
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t begin = span.offset / page * page;
    // Older kernels do not know it.
    if (::madvise(data_ + begin, span.offset + span.bytes - begin, MADV_POPULATE_READ) == 0 ||
        errno == EINVAL) {
      return Status::OK();
    }
    return Status::IOError(fmt::format("cannot be read from {}: {}", path_,
                                       port::ErrorText(errno == EFAULT ? EIO : errno)));
  }

  char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

struct CheckTotals {
  uint64_t databases = 0;
  uint64_t tables = 0;
  uint64_t bytes = 0;
  uint64_t wrong = 0;
};

// Checks one database, and says what it has found.
class DatabaseCheck {
 public:
  DatabaseCheck(const Directory::Opened& opened, const RegionFile& region,
                const StoredDatabase& database)
      : opened_(opened), region_(region), database_(database) {
    for (const StoredReason& reason : database.reasons) {
      if (static_cast<ByteReason::Kind>(reason.kind) != ByteReason::Kind::kLive) continue;
      for (const StoredRange& range : reason.ranges) live_.Add({range.begin, range.end});
    }
  }

  Findings Run() {
    said_ = fmt::format("{} live", FormatBytes(live_.bytes()));
    const auto manifest = opened_.state.manifests.find(database_.incarnation);
    if (!database_.listed) {
      said_ += ", is destroyed";
    } else if (manifest == opened_.state.manifests.end() || manifest->second.version == 0) {
      said_ += ", no manifest yet";
    } else if (IsShardTablesName(database_.name)) {
      CheckList(manifest->second.bytes);
    } else {
      CheckManifest(manifest->second.bytes);
    }
    Findings findings = {{wrong_.empty() ? Verdict::kGood : Verdict::kBad, Subject(), said_, ""}};
    findings.insert(findings.end(), wrong_.begin(), wrong_.end());
    return findings;
  }

  void AddTo(CheckTotals* totals) const {
    ++totals->databases;
    totals->tables += tables_;
    totals->bytes += bytes_;
    totals->wrong += wrong_.size();
  }

 private:
  std::string Subject() const { return fmt::format("database {}", database_.name); }

  void Wrong(const std::string& what, const std::string& remedy = kRestore) {
    wrong_.push_back({Verdict::kBad, Subject(), what, remedy});
  }

  bool IsLive(const RemoteSpan& span) const {
    return span.bytes == 0 || (span.offset <= UINT64_MAX - span.bytes &&
                               live_.Contains({span.offset, span.offset + span.bytes}));
  }

  // What a node has instead of a manifest if it is not the shard's home.
  void CheckList(const std::string& bytes) {
    LiveList list;
    const Status decoded = list.Decode(bytes);
    if (!decoded.ok()) return Wrong(decoded.message().ToString());
    for (const RemoteSpan& span : list.spans) {
      if (IsLive(span)) continue;
      Wrong(fmt::format("the table at offset {} is in bytes that the database does not have",
                        span.offset));
    }
    said_ += fmt::format(", {} tables skipped: their manifest is at another memory node",
                         list.spans.size());
  }

  void CheckManifest(const std::string& bytes) {
    std::vector<TableMeta> tables;
    const auto collect = [&tables](const TableMeta& meta, TableRef* /*table*/) {
      tables.push_back(meta);
      return Status::OK();
    };
    Manifest manifest;
    std::vector<Level> levels;
    const Status decoded = ManifestCodec::Decode(bytes, collect, &manifest, &levels);
    if (!decoded.ok()) {
      return Wrong(fmt::format("the manifest: {}", decoded.message().ToStringView()));
    }
    uint64_t elsewhere = 0;
    for (const TableMeta& table : tables) {
      // The first of them is the home, and a manifest is kept nowhere else.
      if (!manifest.table_nodes.empty() && table.image.node != manifest.table_nodes.front().id) {
        ++elsewhere;
      } else {
        CheckTableHere(manifest.comparator_name, table);
      }
    }
    said_ += fmt::format(", {} tables checked ({})", tables_, FormatBytes(bytes_));
    if (elsewhere > 0) said_ += fmt::format(", {} on other memory nodes skipped", elsewhere);
    if (manifest.log.has_value()) CheckLog(*manifest.log);
  }

  void CheckTableHere(const std::string& comparator_name, const TableMeta& table) {
    ++tables_;
    bytes_ += table.image.bytes;
    Status status = IsLive(table.image)
                        ? Status::OK()
                        : Status::Corruption("is in bytes that the database does not have");
    Slice image;
    if (status.ok()) status = region_.Read(table.image, &image);
    if (status.ok()) status = CheckTable(comparator_name, table, image);
    if (status.ok()) return;
    Wrong(fmt::format("table {} at offset {} of the region: {}", table.number, table.image.offset,
                      status.message().ToStringView()));
  }

  void CheckLog(const LogRecord& record) {
    LogReader::Result result;
    bool after_power_failure = false;
    const Status status = ReadLog(record, &result, &after_power_failure);
    const uint64_t bytes = result.end - std::min(result.end, result.start);
    bytes_ += bytes;
    said_ += fmt::format(", log of {} with {} writes", FormatBytes(bytes), result.frames);
    if (after_power_failure) {
      said_ += fmt::format(", of which {} were known to be on disk when the power failed",
                           FormatBytes(std::min(bytes, result.persisted - std::min(result.persisted,
                                                                                   result.start))));
    }
    if (status.ok()) return;
    Wrong(fmt::format("the log at offset {} of the region: {}", record.header.offset,
                      status.message().ToStringView()),
          fmt::format("restore the directory from a copy, or have the database opened without what "
                      "is lost: dlsm_tool accept-loss --db={}",
                      database_.name));
  }

  Status ReadLog(const LogRecord& record, LogReader::Result* result, bool* after_power_failure) {
    for (const RemoteSpan& span : record.Spans()) {
      if (!IsLive(span)) {
        return Status::Corruption(fmt::format(
            "its part at offset {} is in bytes that the database does not have", span.offset));
      }
      Slice bytes;
      DLSM_RETURN_IF_ERROR(region_.Read(span, &bytes));
    }
    // The number that the memory node will have when it is started. Only whether it is that of the
    // log counts.
    const PersistenceId present = opened_.resumed
                                      ? PersistenceId{opened_.contents.persistence}
                                      : PersistenceId{~static_cast<uint64_t>(record.persistence)};
    OwnMemory memory(record.header.node, record.header.region, region_.data(), region_.bytes());
    LogReader reader(record, present, &memory, std::chrono::seconds(10));
    *after_power_failure = !reader.memory_is_whole();
    const auto check_entries = [](size_t, const LogFrame& frame) {
      return ForEachEntry(frame, [](SequenceNumber, ValueType, const Slice&, const Slice&) {
        return Status::OK();
      });
    };
    return reader.Read([](size_t) {}, check_entries, result);
  }

  const Directory::Opened& opened_;
  const RegionFile& region_;
  const StoredDatabase& database_;
  ByteRanges live_;
  uint64_t tables_ = 0;
  uint64_t bytes_ = 0;
  std::string said_;
  Findings wrong_;
};

}  // namespace

Status CheckDirectory(const std::string& path, std::ostream* out, bool* good) {
  *good = false;
  Directory::Opened opened;
  std::unique_ptr<Directory> directory;
  DLSM_RETURN_IF_ERROR(Directory::Inspect(path, &opened, &directory));
  RegionFile region;
  DLSM_RETURN_IF_ERROR(region.Map(*directory, opened.contents.capacity_bytes));
  CheckTotals totals;
  for (const StoredDatabase& database : opened.state.databases) {
    DatabaseCheck check(opened, region, database);
    PrintFindings(check.Run(), out);
    check.AddTo(&totals);
  }
  *good = totals.wrong == 0;
  *out << fmt::format("{} databases, {} tables, {} bytes checked: {}\n", totals.databases,
                      totals.tables, totals.bytes,
                      *good ? "nothing wrong" : fmt::format("{} things wrong", totals.wrong));
  return Status::OK();
}

}  // namespace dlsm::tool
