#include "script/python/comparators.h"

#include <utility>

#include "dLSM/slice.h"
#include "script/python/values.h"

namespace dlsm::python {
namespace {

class PythonComparator : public Comparator {
 public:
  PythonComparator(std::string name, nb::callable function)
      : name_(std::move(name)), function_(std::move(function)) {}
  ~PythonComparator() override {
    // After the end of the interpreter nobody may touch the function.
    if (Py_IsInitialized() == 0) {
      static_cast<void>(function_.release());
      return;
    }
    const nb::gil_scoped_acquire acquired;
    function_.reset();
  }

  int Compare(const Slice& a, const Slice& b) const override {
    const nb::gil_scoped_acquire acquired;
    try {
      const nb::object result = function_(ToPython(a), ToPython(b));
      const long order = PyLong_AsLong(result.ptr());
      if (order == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
      return order < 0 ? -1 : static_cast<int>(order > 0);
    } catch (nb::python_error& error) {
      error.restore();
      PyErr_WriteUnraisable(function_.ptr());
      return a.compare(b);
    }
  }
  const char* Name() const override { return name_.c_str(); }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

 private:
  const std::string name_;
  nb::callable function_;
};

}  // namespace

std::shared_ptr<const Comparator> NewPythonComparator(std::string name, nb::callable function) {
  return std::make_shared<PythonComparator>(std::move(name), std::move(function));
}

}  // namespace dlsm::python
