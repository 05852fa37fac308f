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
  ExpiryFilter(const Slice& key_prefix, const Slice& value_prefix)
      : key_prefix_(key_prefix.ToString()), value_prefix_(value_prefix.ToString()) {}

  const char* Name() const override { return kExpiryName; }
  // | key prefix, length-prefixed | value prefix |
  std::string Parameters() const override {
    std::string parameters;
    PutLengthPrefixed(&parameters, key_prefix_);
    return parameters + value_prefix_;
  }
  bool Filter(int /*level*/, const Slice& key, const Slice& value, std::string* /*new_value*/,
              bool* /*value_changed*/) const override {
    if (value.size() < value_prefix_.size() + sizeof(uint64_t)) return false;
    if (!value.starts_with(value_prefix_) || !key.starts_with(key_prefix_)) return false;
    const uint64_t expires = DecodeFixed64(value.data() + value_prefix_.size());
    return expires != 0 && expires <= NowMilliseconds();
  }

  static Status Make(const Slice& parameters, std::shared_ptr<const CompactionFilter>* filter) {
    Slice rest = parameters;
    Slice key_prefix;
    if (!GetLengthPrefixed(&rest, &key_prefix)) {
      return Status::InvalidArgument("the parameters of the expiry filter are malformed");
    }
    *filter = std::make_shared<ExpiryFilter>(key_prefix, rest);
    return Status::OK();
  }

 private:
  const std::string key_prefix_;
  const std::string value_prefix_;
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

std::shared_ptr<const CompactionFilter> NewExpiryFilter(const Slice& key_prefix,
                                                        const Slice& value_prefix) {
  return std::make_shared<ExpiryFilter>(key_prefix, value_prefix);
}

}  // namespace dlsm
