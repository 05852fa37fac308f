#include "script/python/opening.h"

#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>

#include "dLSM/cache.h"
#include "dLSM/db.h"
#include "dLSM/filter_policy.h"
#include "dLSM/options.h"
#include "script/python/comparators.h"
#include "script/python/database.h"
#include "script/python/handle.h"
#include "script/python/open_options.h"
#include "script/python/values.h"

namespace dlsm::python {
namespace {

// Options, and what they point to up to the open.
struct Opening {
  Options options;
  std::unique_ptr<Cache> cache;
  std::unique_ptr<const FilterPolicy> filter;
  std::shared_ptr<const Comparator> comparator;
};

template <typename Number>
Number NumberOf(const std::string& option, nb::handle value) {
  Number number;
  if (!nb::try_cast(value, number)) {
    throw nb::type_error(
        ("option '" + option + "': a value of a wrong type, or out of range").c_str());
  }
  return number;
}

// Those that are no plain members of Options.
bool SetObject(Opening* opening, const std::string& option, nb::handle value) {
  if (option == "lru_cache_size") {
    opening->cache.reset(NewLRUCache(NumberOf<size_t>(option, value)));
    opening->options.block_cache = opening->cache.get();
  } else if (option == "bloom_filter_bits") {
    const int bits = NumberOf<int>(option, value);
    if (bits > 0) opening->filter.reset(NewBloomFilterPolicy(bits));
    opening->options.filter_policy = bits > 0 ? opening->filter.get() : Options::kNoFilter;
  } else if (option == "comparator") {
    if (!PyTuple_Check(value.ptr()) || PyTuple_GET_SIZE(value.ptr()) != 2) {
      throw nb::type_error("option 'comparator': not a pair of a name and a function");
    }
    const nb::handle function = PyTuple_GET_ITEM(value.ptr(), 1);
    if (PyCallable_Check(function.ptr()) == 0) {
      throw nb::type_error("option 'comparator': the second of the pair is no function");
    }
    opening->comparator = NewPythonComparator(TextOf(PyTuple_GET_ITEM(value.ptr(), 0)),
                                              nb::borrow<nb::callable>(function));
    opening->options.comparator = opening->comparator.get();
  } else {
    return false;
  }
  return true;
}

Opening OpeningOf(nb::handle path, const std::string& memory_nodes, const nb::dict& others) {
  Opening opening;
  opening.options.memory_nodes = memory_nodes;
  if (!path.is_none()) opening.options.embedded_dir = TextOf(path);
  for (const auto& [option, value] : others) {
    const auto name = nb::cast<std::string>(option);
    if (!SetObject(&opening, name, value)) SetOption(&opening.options, name, value);
  }
  return opening;
}

PythonDb* Open(nb::handle path, const std::string& name, const std::string& memory_nodes,
               bool create_if_missing, bool follower, const nb::dict& others) {
  Opening opening = OpeningOf(path, memory_nodes, others);
  opening.options.create_if_missing = create_if_missing;
  std::shared_ptr<Handle> handle;
  {
    const WithoutGil released;
    std::unique_ptr<DB> db;
    Check(follower ? DB::OpenFollower(opening.options, name, &db)
                   : DB::Open(opening.options, name, &db));
    handle = Handle::Make(std::move(db), opening.comparator);
  }
  return new PythonDb(std::move(handle));
}

void Destroy(nb::handle path, const std::string& name, const std::string& memory_nodes,
             const nb::dict& others) {
  const Opening opening = OpeningOf(path, memory_nodes, others);
  const WithoutGil released;
  Check(DestroyDB(name, opening.options));
}

}  // namespace

void AddOpening(nb::module_& module) {
  module.def("_open", &Open, nb::arg("path").none(), nb::arg("name"), nb::arg("memory_nodes"),
             nb::arg("create_if_missing"), nb::arg("follower"), nb::arg("options"),
             nb::rv_policy::take_ownership);
  module.def("_destroy", &Destroy, nb::arg("path").none(), nb::arg("name"), nb::arg("memory_nodes"),
             nb::arg("options"));
  module.def("_close_all", [] {
    const WithoutGil released;
    Handle::CloseAll();
  });
}

}  // namespace dlsm::python
