#include "memory_node/accounts/sessions.h"

#include <algorithm>
#include <utility>

#include "util/coding.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm {

Status Sessions::DrawId(SessionId* id) const {
  do {
    std::string random;
    DLSM_RETURN_IF_ERROR(RandomBytes(sizeof(uint64_t), &random));
    *id = SessionId{DecodeFixed64(random.data())};
  } while (*id == SessionId{} || sessions_.contains(*id));
  return Status::OK();
}

Session* Sessions::Add(SessionId id, const RpcPeer& peer, DatabasePointer database,
                       Clock::time_point ends_at) {
  Session session;
  session.database = std::move(database);
  session.client = peer.name;
  if (!peer.data_token.empty()) session.tokens.push_back(peer.data_token);
  session.connection = peer.connection;
  Session* const added = &sessions_.emplace(id, std::move(session)).first->second;
  SetEnd(ends_at, added);
  return added;
}

Session* Sessions::Restore(SessionId id, Session session, Clock::time_point ends_at) {
  session.connected = false;
  Session* const added = &sessions_.emplace(id, std::move(session)).first->second;
  SetEnd(ends_at, added);
  return added;
}

Session* Sessions::Find(SessionId id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

const Session* Sessions::Find(SessionId id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

// A client makes another connection only when it has given up the one before. What still comes from
// that was sent before all that has come since: a manifest would name memory that has been given
// back, and granted again, by now.
Status Sessions::Renew(const RpcPeer& peer, Clock::time_point ends_at, Session* session) {
  if (peer.connection < session->connection) {
    return Status::IOError(
        "this call has come over a connection that its client has replaced by a later one");
  }
  const bool known = peer.data_token.empty() ||
                     std::ranges::find(session->tokens, peer.data_token) != session->tokens.end();
  if (!known && session->tokens.size() >= kTokensMax) {
    return Status::IOError("this session has been called with too many data tokens",
                           "open the database again");
  }
  if (!known) session->tokens.push_back(peer.data_token);
  session->connection = peer.connection;
  session->connected = true;
  session->known = true;
  SetEnd(ends_at, session);
  return Status::OK();
}

void Sessions::SetEnd(Clock::time_point ends_at, Session* session) {
  session->ends_at = ends_at;
  first_end_ = std::min(first_end_, ends_at);
}

void Sessions::Disconnected(uint64_t connection, Clock::time_point grace_end) {
  for (auto& [id, session] : sessions_) {
    if (session.connection != connection) continue;
    session.connected = false;
    SetEnd(std::min(session.ends_at, grace_end), &session);
  }
}

void Sessions::MoveOn(std::chrono::nanoseconds by) {
  for (auto& [id, session] : sessions_) session.ends_at += by;
}

std::vector<SessionId> Sessions::Over(Clock::time_point now) {
  std::vector<SessionId> over;
  if (now < first_end_) return over;
  Clock::time_point first_end = Clock::time_point::max();
  for (const auto& [id, session] : sessions_) {
    if (session.ends_at <= now) {
      over.push_back(id);
    } else {
      first_end = std::min(first_end, session.ends_at);
    }
  }
  // Otherwise they are found again, should the caller not get to end all of them.
  if (over.empty()) first_end_ = first_end;
  return over;
}

std::vector<std::string> Sessions::TokensOnlyOf(const Session& session, bool same_database) const {
  std::vector<std::string> tokens = session.tokens;
  for (const auto& [id, other] : sessions_) {
    if (&other == &session || (same_database && other.database != session.database)) continue;
    std::erase_if(tokens, [&other = other](const std::string& token) {
      return std::ranges::find(other.tokens, token) != other.tokens.end();
    });
  }
  return tokens;
}

void Sessions::NoteRevoked(const std::vector<std::string>& tokens) {
  for (const std::string& token : tokens) {
    for (auto& [id, session] : sessions_) {
      if (std::ranges::find(session.tokens, token) != session.tokens.end()) {
        session.revoked.insert(token);
      }
    }
  }
}

bool Sessions::AnyDisconnected() const {
  return std::ranges::any_of(sessions_, [](const auto& each) { return !each.second.connected; });
}

}  // namespace dlsm
