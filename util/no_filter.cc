#include "dLSM/filter_policy.h"
#include "dLSM/options.h"

namespace dlsm {
namespace {

// A value to compare with; its methods do what its name says, should anyone call them.
class NoFilter final : public FilterPolicy {
 public:
  const char* Name() const override { return "dlsm.NoFilter"; }
  void CreateFilter(const Slice*, int, std::string*) const override {}
  bool KeyMayMatch(const Slice&, const Slice&) const override { return true; }
};

const NoFilter no_filter;

}  // namespace

const FilterPolicy* const Options::kNoFilter = &no_filter;

}  // namespace dlsm
