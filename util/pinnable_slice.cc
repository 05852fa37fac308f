#include "dLSM/pinnable_slice.h"

#include <new>

#include "port/process_mark.h"

namespace dlsm {

void PinnableSlice::Hold(std::shared_ptr<const void>* holder) noexcept {
  holder_.swap(*holder);
  process_ = port::ProcessMark::Current();
}

void PinnableSlice::LetGoOfHolder() noexcept {
  if (process_ == port::ProcessMark::Current()) [[likely]] {
    holder_.reset();
  } else {
    // Made anew where it lies: the destructor does not run, which could take locks that are never
    // unlocked here.
    new (&holder_) std::shared_ptr<const void>();
  }
}

}  // namespace dlsm
