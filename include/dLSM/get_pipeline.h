// Gets that overlap: the asynchronous form of DB::Get(), for who has the next keys before the
// answers for the last ones are there. A thread keeps many round trips under way at once, and the
// cache misses of tables that are read in place overlap, too.
//
//   auto pipeline = db->NewGetPipeline(ReadOptions(), 64);
//   Status status;
//   GetPipeline::Answer answer;
//   for (size_t next = 0; status.ok() && (next < keys.size() || pipeline->outstanding() > 0);) {
//     if (next < keys.size() && pipeline->outstanding() < pipeline->depth()) {
//       status = pipeline->Submit(keys[next], next);
//       ++next;
//     } else if (pipeline->Next(&answer)) {
//       Use(keys[answer.tag], answer.status, answer.value);
//     }
//   }
//
// Not thread-safe: one thread at a time. Deleted before the database; what is outstanding then is
// dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

class GetPipeline {
 public:
  struct Answer {
    uint64_t tag = 0;  // As given to Submit().
    Status status;     // As of DB::Get().
    std::string value;
  };

  GetPipeline() = default;
  GetPipeline(const GetPipeline&) = delete;
  GetPipeline& operator=(const GetPipeline&) = delete;
  virtual ~GetPipeline() = default;

  // Starts a get, which sees the database as it is now, or the ReadOptions' snapshot. Its fetch
  // leaves with those of others, when some have been submitted or an answer is waited for. Does not
  // wait for its answer; but a thread's first read, or one after an error, has to connect, an index
  // that Options::memory_budget has evicted is fetched, and a thread that never takes an answer
  // waits once it has posted thousands. Busy if depth() gets are outstanding: take an answer first.
  // Where the process has no memory for the record of a get that was submitted, its answer is an
  // IOError.
  virtual Status Submit(const Slice& key, uint64_t tag) = 0;
  // Waits for the get that was submitted first of those outstanding, as long as DB::Get() would.
  // False if there is none, or `answer` is null. The string that answer->value brings is used
  // again.
  virtual bool Next(Answer* answer) = 0;

  virtual size_t outstanding() const = 0;
  virtual size_t depth() const = 0;
};

}  // namespace dlsm
