// The thread that receives what memory nodes answer, over all control connections of this process:
// a connection over which nothing comes costs no thread, and its end is noticed all the same.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/file_descriptor.h"

namespace dlsm {

// Thread-safe.
class ReplyReader {
 public:
  // Something with a socket.
  class Source {
   public:
    enum class Outcome : uint8_t {
      kWait,   // For the socket to be readable.
      kMore,   // There may be more, which comes after others' turn.
      kEnded,  // Nothing more will come.
    };
    virtual ~Source() = default;
    // Receives what there is, without waiting, but not for long. Called by the reader's thread.
    virtual Outcome Receive() noexcept = 0;
  };

  // That of this process, which all who ask for it share; it ends with the last of them. A process
  // that was forked has another one than its parent. An error if the system has no descriptors;
  // std::system_error if it has no thread.
  static Status OfThisProcess(std::shared_ptr<ReplyReader>* reader);

  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // From now on `source` is called when `socket` is readable. *id is for Remove().
  Status Add(int socket, Source* source, uint64_t* id) LOCKS_EXCLUDED(mutex_);
  // It is not called any more. Before the socket is closed; not by the source itself.
  void Remove(uint64_t id) LOCKS_EXCLUDED(mutex_);

 private:
  struct Added {
    Source* source;
    int socket;
    bool has_more = false;
  };

  ReplyReader() = default;
  Status Start();
  void Run() LOCKS_EXCLUDED(mutex_);
  // Returns whether the source has more.
  bool Call(uint64_t id) LOCKS_EXCLUDED(mutex_);
  // Each that has more, once. Returns whether any still has.
  bool CallForMore() LOCKS_EXCLUDED(mutex_);

  static constexpr uint64_t kStop = 0;  // In the place of an id.

  FileDescriptor epoll_;
  FileDescriptor stop_;  // An eventfd that becomes readable at the end.

  port::Mutex mutex_;  // Not held while a source is called.
  port::CondVar called_{mutex_};
  uint64_t last_id_ GUARDED_BY(mutex_) = kStop;
  std::map<uint64_t, Added> sources_ GUARDED_BY(mutex_);
  uint64_t calling_ GUARDED_BY(mutex_) = kStop;  // Whose source is being called.

  port::Thread thread_;  // Last: it uses all of the above.
};

}  // namespace dlsm
