#include "db/merge/merge_chooser.h"

namespace dlsm {
namespace {

bool Fits(const RoomLeft& room, const MergePick& pick) {
  return pick.trivial_move || room.Fits(pick.input_bytes());
}

}  // namespace

std::optional<MergePick> MergeChooser::Next(const Situation& situation, bool for_reads) {
  const Version& version = situation.version;
  RoomLeft room = situation.room;
  std::optional<MergePick> pick = policy_->Pick(version, situation.busy);
  // Then nothing can begin but what reads have asked for.
  if (!for_reads && pick.has_value() && pick->cause == MergeCause::kReads) pick.reset();
  if (pick.has_value() && Fits(room, *pick)) return pick;
  if (room.for_merges == 0 && !situation.busy.empty()) return std::nullopt;
  if (pick.has_value()) room.for_data = 0;  // However little is obsolete: it is wanted now.
  if (room.IsPressing(version.bytes()) || room.wanted) {
    policy_->SetSnapshots(situation.snapshots.List());
    std::optional<MergePick> makes_room = policy_->PickForRoom(version, situation.busy, room);
    if (makes_room.has_value() && (Fits(room, *makes_room) || !pick.has_value() ||
                                   makes_room->input_bytes() < pick->input_bytes())) {
      pick = std::move(makes_room);
    }
  }
  if (!pick.has_value() || Fits(room, *pick)) return pick;
  if (std::optional<MergePick> step = StepOf(situation, *pick); step.has_value()) return step;
  // What is known of the room may be out of date.
  return situation.busy.empty() ? std::move(pick) : std::nullopt;
}

std::optional<MergePick> MergeChooser::NextManual(const Situation& situation, size_t level,
                                                  const ManualScope& scope, bool* done,
                                                  bool* whole) {
  policy_->SetSnapshots(situation.snapshots.List());
  std::optional<MergePick> pick =
      policy_->PickManual(situation.version, situation.busy, level, scope, done);
  *whole = true;
  if (!pick.has_value() || Fits(situation.room, *pick)) return pick;
  std::optional<MergePick> step = StepOf(situation, *pick);
  *whole = !step.has_value();
  if (step.has_value()) return step;
  return situation.busy.empty() ? std::move(pick) : std::nullopt;
}

std::optional<MergePick> MergeChooser::StepOf(const Situation& situation, const MergePick& whole) {
  if (!situation.busy.empty()) return std::nullopt;
  return pieces_.Next(situation.version, whole, situation.room.for_merges,
                      situation.snapshots.List());
}

}  // namespace dlsm
