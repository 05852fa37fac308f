// Decodes arbitrary bytes as every request and reply. What is accepted survives another round.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "util/rpc/messages/messages.h"

namespace {

template <typename Message>
void Check(const dlsm::Slice& bytes) {
  Message message;
  if (!message.Decode(bytes).ok()) return;
  const std::string encoded = message.Encode();
  Message again;
  if (!again.Decode(encoded).ok() || again.Encode() != encoded) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const dlsm::Slice bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 23) {
    case 0:
      Check<dlsm::OpenDatabaseRequest>(bytes);
      break;
    case 1:
      Check<dlsm::OpenDatabaseReply>(bytes);
      break;
    case 2:
      Check<dlsm::HeartbeatRequest>(bytes);
      break;
    case 3:
      Check<dlsm::GrantRequest>(bytes);
      break;
    case 4:
      Check<dlsm::GrantReply>(bytes);
      break;
    case 5:
      Check<dlsm::FreeRequest>(bytes);
      break;
    case 6:
      Check<dlsm::PutManifestRequest>(bytes);
      break;
    case 7:
      Check<dlsm::CloseDatabaseRequest>(bytes);
      break;
    case 8:
      Check<dlsm::DestroyDatabaseRequest>(bytes);
      break;
    case 9:
      Check<dlsm::ListDatabasesReply>(bytes);
      break;
    case 10:
      Check<dlsm::HeartbeatReply>(bytes);
      break;
    case 11:
      Check<dlsm::SetMergeScheduleRequest>(bytes);
      break;
    case 12:
      Check<dlsm::SetMergeScheduleReply>(bytes);
      break;
    case 13:
      Check<dlsm::SetQuotaRequest>(bytes);
      break;
    case 14:
      Check<dlsm::OpenReaderRequest>(bytes);
      break;
    case 15:
      Check<dlsm::OpenReaderReply>(bytes);
      break;
    case 16:
      Check<dlsm::ReaderHeartbeatRequest>(bytes);
      break;
    case 17:
      Check<dlsm::ReaderHeartbeatReply>(bytes);
      break;
    case 20:
      Check<dlsm::RenewSessionsRequest>(bytes);
      break;
    case 21:
      Check<dlsm::RenewSessionsReply>(bytes);
      break;
    case 22:
      Check<dlsm::PersistRequest>(bytes);
      break;
    case 18:
      Check<dlsm::CloseReaderRequest>(bytes);
      break;
    default:
      Check<dlsm::NodeStatisticsReply>(bytes);
  }
  return 0;
}
