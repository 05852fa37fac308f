// What GetProperty() answers.
#pragma once

#include <string>

#include "dLSM/slice.h"

namespace dlsm {

class DbImpl;

class Properties {
 public:
  explicit Properties(DbImpl& db) : db_(db) {}
  // False if there is no such property.
  bool Get(const Slice& property, std::string* value) const;

 private:
  std::string Stats() const;
  std::string Levels() const;
  std::string Wire() const;
  std::string Calls() const;
  std::string Stalls() const;
  std::string Memory() const;
  std::string MergeScheduleInForce() const;
  std::string NodeStatistics(bool cpu_only) const;
  bool TablesAtLevel(const Slice& level, std::string* value) const;

  DbImpl& db_;
};

}  // namespace dlsm
