// Any bytes as a frame of a log: damage is an error, and nothing beyond the bytes is read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "db/log/log_frame.h"
#include "db/log/log_layout.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlsm;
  const Slice bytes(reinterpret_cast<const char*>(data), size);
  constexpr LogId kLog{1};
  Slice record_bytes = bytes;
  LogRecord record;
  if (LogRecord::Take(&record_bytes, &record).ok()) {
    // A record that was decoded is encoded and decoded again, and is the same.
    std::string again;
    record.AppendTo(&again);
    Slice rest(again);
    LogRecord same;
    if (!LogRecord::Take(&rest, &same).ok() || same != record || !rest.empty()) std::abort();
  }
  LogPosition mark;
  (void)DecodeLogMark(kLog, LogMark::kStart, bytes, &mark).ok();
  uint64_t number;
  (void)DecodeLogSegmentHeader(kLog, bytes, &number);
  // With a header that is right the entries come from the fuzzer.
  std::string frame_bytes = std::string(kLogFrameHeaderBytes, '\0') + bytes.ToString();
  SealLogFrame(kLog, 0, static_cast<uint32_t>(frame_bytes.size()), 1, size == 0 ? 1 : data[0],
               frame_bytes.data());
  LogFrame frame;
  if (!TakeLogFrame(kLog, 0, frame_bytes, &frame)) std::abort();
  LogEntryReader reader(frame);
  SequenceNumber sequence;
  ValueType type;
  Slice key;
  Slice value;
  while (reader.Next(&sequence, &type, &key, &value)) {
  }
  (void)reader.status().ok();
  (void)TakeLogFrame(kLog, 0, bytes, &frame);
  return 0;
}
