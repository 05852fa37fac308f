// Tells whether an object is of a class of the library's. It needs no run-time type information,
// which programs may be compiled without.
#pragma once

#include <atomic>
#include <cstring>

namespace dlsm::compat {

// The class whose objects call Is() in their constructor's body. Every object of a class with
// virtual functions begins with the address of the table of these functions, which no other class
// has. Thread-safe.
class SameClass {
 public:
  // `object` has the class.
  void Is(const void* object) { table_.store(TableOf(object), std::memory_order_relaxed); }
  // Whether `object`, which is not null and has virtual functions, has that class.
  bool Has(const void* object) const {
    // Relaxed is enough: who has such an object was given it after its constructor had run.
    const void* const table = table_.load(std::memory_order_relaxed);
    return table != nullptr && table == TableOf(object);
  }

 private:
  static const void* TableOf(const void* object) {
    const void* table;
    std::memcpy(&table, object, sizeof(table));
    return table;
  }

  std::atomic<const void*> table_{nullptr};
};

}  // namespace dlsm::compat
