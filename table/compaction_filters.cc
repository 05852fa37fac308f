#include "table/compaction_filters.h"

#include <chrono>
#include <map>
#include <utility>

#include "port/mutex.h"
#include "util/coding.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr const char* kExpiryName = "dlsm.Expiry";

uint64_t NowMilliseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

class ExpiryFilter final : public CompactionFilter {
 public:
  ExpiryFilter(const Slice& key_prefix, uint64_t offset)
      : key_prefix_(key_prefix.ToString()), offset_(offset) {}

  const char* Name() const override { return kExpiryName; }
  // | offset: 8 | key prefix |
  std::string Parameters() const override {
    std::string parameters;
    PutFixed64(&parameters, offset_);
    return parameters + key_prefix_;
  }
  bool Filter(int /*level*/, const Slice& key, const Slice& value, std::string* /*new_value*/,
              bool* /*value_changed*/) const override {
    if (value.size() < sizeof(uint64_t) || offset_ > value.size() - sizeof(uint64_t)) return false;
    if (!key.starts_with(key_prefix_)) return false;
    const uint64_t expires = DecodeFixed64(value.data() + offset_);
    return expires != 0 && expires <= NowMilliseconds();
  }

  static Status Make(const Slice& parameters, std::shared_ptr<const CompactionFilter>* filter) {
    Slice rest = parameters;
    uint64_t offset;
    if (!GetFixed64(&rest, &offset)) {
      return Status::InvalidArgument("the parameters of the expiry filter are too short");
    }
    *filter = std::make_shared<ExpiryFilter>(rest, offset);
    return Status::OK();
  }

 private:
  const std::string key_prefix_;
  const uint64_t offset_;
};

class FactoryTable {
 public:
  FactoryTable() { factories_[kExpiryName] = &ExpiryFilter::Make; }

  bool Add(const std::string& name, CompactionFilterFactory factory) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return factories_.emplace(name, std::move(factory)).second;
  }
  // Empty if there is none.
  CompactionFilterFactory Find(const std::string& name) const LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    const auto found = factories_.find(name);
    return found == factories_.end() ? CompactionFilterFactory() : found->second;
  }

 private:
  mutable port::Mutex mutex_;
  std::map<std::string, CompactionFilterFactory> factories_ GUARDED_BY(mutex_);
};

// Of the process, as an embedded memory node finds its factories here.
FactoryTable& Factories() {
  static FactoryTable factories;
  return factories;
}

}  // namespace

Status RegisterCompactionFilter(const std::string& name, CompactionFilterFactory factory) {
  if (name.empty() || name.starts_with("dlsm.") || factory == nullptr) {
    return Status::InvalidArgument("a compaction filter named \"" + name + "\"",
                                   "give it a factory, and a name that does not begin with dlsm.");
  }
  return Factories().Add(name, std::move(factory))
             ? Status::OK()
             : Status::InvalidArgument("a compaction filter named \"" + name + "\" is registered",
                                       "give this one another name");
}

Status MakeCompactionFilter(const std::string& name, const Slice& parameters,
                            std::shared_ptr<const CompactionFilter>* filter) {
  const CompactionFilterFactory factory = Factories().Find(name);
  if (factory == nullptr) {
    return Status::NotSupported("no compaction filter named \"" + name + "\"",
                                "register it in the memory node's process");
  }
  DLSM_RETURN_IF_ERROR(factory(parameters, filter));
  return *filter != nullptr
             ? Status::OK()
             : Status::InvalidArgument("the factory of filter \"" + name + "\" made none");
}

std::shared_ptr<const CompactionFilter> NewExpiryFilter(const Slice& key_prefix, size_t offset) {
  return std::make_shared<ExpiryFilter>(key_prefix, offset);
}

}  // namespace dlsm
