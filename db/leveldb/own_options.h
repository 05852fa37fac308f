// Options of a LevelDB program as those of dLSM.
#pragma once

#include <memory>
#include <string>

#include "dLSM/cache.h"
#include "dLSM/comparator.h"
#include "dLSM/filter_policy.h"
#include "dLSM/options.h"
#include "leveldb/options.h"

namespace dlsm::compat {

// The options, and what they point to that is not the program's. It outlives the database that is
// opened with them.
class OwnOptions {
 public:
  // Which kind of filter a database has is stored with it.
  enum class Filter {
    kWanted,   // As the program's options mean.
    kBuiltIn,  // dLSM's own.
    kAny,      // AnyFilter().
    kNone,
  };

  // `given` is within the bounds that LevelDB brings options into; so is what comes of it.
  explicit OwnOptions(const leveldb::Options& given);

  // To be changed further. They are for one open.
  dlsm::Options& options() { return options_; }
  void SetFilter(Filter filter);

  // What the program should know, for its log; "" if nothing.
  const std::string& warning() const { return warning_; }

 private:
  void SetComparator(const leveldb::Comparator* given);
  void SetFormat(const leveldb::Options& given);

  const leveldb::FilterPolicy* const given_filter_;
  dlsm::Options options_;
  std::unique_ptr<const dlsm::Comparator> comparator_;
  std::unique_ptr<const dlsm::FilterPolicy> filter_;
  std::unique_ptr<dlsm::Cache> cache_;
  std::string warning_;
};

}  // namespace dlsm::compat
