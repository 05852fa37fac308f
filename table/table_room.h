// How much more fits into a table that is being built: what is asked before each record.
//
// To add up the image's parts for each question would cost more than the record. So this counts the
// records' bounds, which are no less than what they have added, and asks the builder only where
// that could make a difference: the answers are those that the builder's bound gives.
#pragma once

#include <cstdint>

#include "table/table_builder.h"

namespace dlsm {

class TableRoom {
 public:
  TableRoom() = default;
  // `capacity`: of the table's image. The builder outlives the room.
  TableRoom(const TableBuilder* builder, uint64_t capacity)
      : builder_(builder), capacity_(capacity), bytes_bound_(builder->ImageBytesBound()) {}

  // Whether records that add so many bytes at most fit in beside what is there.
  bool Fits(uint64_t bytes) {
    if (bytes_bound_ + bytes <= capacity_) [[likely]]
      return true;
    bytes_bound_ = builder_->ImageBytesBound();
    return bytes_bound_ + bytes <= capacity_;
  }

  // Whether the image has so many bytes already, going by the builder's bound.
  bool Has(uint64_t bytes) {
    if (bytes_bound_ < bytes) return false;
    bytes_bound_ = builder_->ImageBytesBound();
    return bytes_bound_ >= bytes;
  }

  // The builder has got a record that adds so many bytes at most.
  void Take(uint64_t bytes) { bytes_bound_ += bytes; }

 private:
  const TableBuilder* builder_ = nullptr;
  uint64_t capacity_ = 0;
  uint64_t bytes_bound_ = 0;  // No less than the builder's bound.
};

}  // namespace dlsm
