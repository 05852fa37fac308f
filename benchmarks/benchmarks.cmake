# db_bench, and the stores that it compares dLSM with where they are installed.
file(GLOB benchmark_sources CONFIGURE_DEPENDS benchmarks/*.cc)
list(FILTER benchmark_sources EXCLUDE
     REGEX "_(main|flags|test)\\.cc$|/engine_(rocksdb|leveldb|sqlite)\\.cc$|/structure_bench_peers\\.cc$")
add_library(dlsm_benchmarks OBJECT ${benchmark_sources})
target_link_libraries(dlsm_benchmarks PRIVATE dlsm_settings PUBLIC dlsm_metrics dlsm)
dlsm_precompile(dlsm_benchmarks)
dlsm_compile_together(dlsm_benchmarks 8)
# With them GCC 12 sees an overflow that is not there in a list of strings.
set_source_files_properties(benchmarks/engine_dlsm.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON)

# dlsm_benchmark_peer(ROCKSDB library header): compiles engine_rocksdb.cc in if it can.
function(dlsm_benchmark_peer macro name header)
  string(TOLOWER ${macro} engine)
  find_path(${macro}_INCLUDE ${header})
  find_library(${macro}_LIBRARY ${name})
  if(NOT ${macro}_INCLUDE OR NOT ${macro}_LIBRARY)
    message(STATUS "db_bench: no ${name}, so no comparison with it")
    return()
  endif()
  target_sources(dlsm_benchmarks PRIVATE benchmarks/engine_${engine}.cc)
  target_compile_definitions(dlsm_benchmarks PRIVATE DLSM_BENCH_${macro})
  target_include_directories(dlsm_benchmarks SYSTEM PRIVATE ${${macro}_INCLUDE})
  target_link_libraries(dlsm_benchmarks PUBLIC ${${macro}_LIBRARY})
endfunction()

# Their libraries are not built for the sanitizers.
if(NOT DLSM_SANITIZE)
  dlsm_benchmark_peer(ROCKSDB rocksdb rocksdb/db.h)
  dlsm_benchmark_peer(LEVELDB leveldb leveldb/db.h)
  if(LEVELDB_INCLUDE AND LEVELDB_LIBRARY)
    # include/ has headers of the same names, which are dLSM's. A compiler looks into folders of the
    # system last, whatever the order, but not into a link to one.
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/peers/leveldb)
    file(CREATE_LINK ${LEVELDB_INCLUDE}/leveldb ${CMAKE_CURRENT_BINARY_DIR}/peers/leveldb/leveldb
         SYMBOLIC)
    target_include_directories(dlsm_benchmarks BEFORE PRIVATE
                               ${CMAKE_CURRENT_BINARY_DIR}/peers/leveldb)
  endif()
  dlsm_benchmark_peer(SQLITE sqlite3 sqlite3.h)
endif()

add_executable(db_bench benchmarks/db_bench_main.cc benchmarks/bench_flags.cc
               benchmarks/engine_flags.cc benchmarks/own_keys_flags.cc
               benchmarks/two_phase_flags.cc benchmarks/tls_flags.cc)
target_link_libraries(db_bench PRIVATE dlsm_benchmarks dlsm_settings gflags)

add_executable(rpc_bench benchmarks/rpc_bench_main.cc benchmarks/tls_flags.cc)
target_link_libraries(rpc_bench PRIVATE dlsm dlsm_settings gflags)

add_executable(fabric_bench benchmarks/fabric_bench_main.cc benchmarks/tls_flags.cc)
target_link_libraries(fabric_bench PRIVATE dlsm dlsm_settings gflags)

add_executable(idle_bench benchmarks/idle_bench_main.cc)
target_link_libraries(idle_bench PRIVATE dlsm dlsm_settings gflags)

# What puts, flushes and merges are made of; and what the machine allows.
find_package(benchmark QUIET)
if(benchmark_FOUND)
  foreach(name structure_bench limits_bench)
    add_executable(${name} benchmarks/${name}_main.cc)
    target_link_libraries(${name} PRIVATE dlsm dlsm_settings benchmark::benchmark)
  endforeach()
  target_sources(structure_bench PRIVATE benchmarks/structure_bench_peers.cc)
  target_link_libraries(structure_bench PRIVATE TBB::tbb)
else()
  message(STATUS "no Google Benchmark, so no structure_bench and no limits_bench")
endif()

# Random operations, faults and crashes against a model.
file(GLOB stress_sources CONFIGURE_DEPENDS benchmarks/stress/*.cc)
list(FILTER stress_sources EXCLUDE REGEX "_(main|test)\\.cc$")
add_library(dlsm_stress OBJECT ${stress_sources})
target_link_libraries(dlsm_stress PRIVATE dlsm_settings PUBLIC dlsm)
dlsm_precompile(dlsm_stress)
dlsm_compile_together(dlsm_stress 8)
add_executable(db_stress benchmarks/stress/db_stress_main.cc)
target_link_libraries(db_stress PRIVATE dlsm_stress dlsm_settings gflags)

# Simulated processes and networks, seed by seed.
file(GLOB simulation_sources CONFIGURE_DEPENDS benchmarks/simulation/*.cc)
list(FILTER simulation_sources EXCLUDE REGEX "_(main|test)\\.cc$")
add_library(dlsm_simulation OBJECT ${simulation_sources})
target_link_libraries(dlsm_simulation PRIVATE dlsm_settings PUBLIC dlsm)
dlsm_precompile(dlsm_simulation)
dlsm_compile_together(dlsm_simulation 8)
add_executable(db_simulate benchmarks/simulation/db_simulate_main.cc
               $<TARGET_OBJECTS:dlsm_stress>)
target_link_libraries(db_simulate PRIVATE dlsm_simulation dlsm_settings gflags)

if(DLSM_TESTS)
  file(GLOB benchmark_tests CONFIGURE_DEPENDS benchmarks/*_test.cc)
  add_executable(benchmarks_test ${benchmark_tests})
  target_link_libraries(benchmarks_test PRIVATE dlsm_benchmarks dlsm_settings GTest::gmock
                        GTest::gtest_main)
  dlsm_compile_tests(benchmarks_test)
  dlsm_discover_tests(benchmarks_test 10)

  file(GLOB stress_tests CONFIGURE_DEPENDS benchmarks/stress/*_test.cc)
  add_executable(stress_test ${stress_tests})
  target_link_libraries(stress_test PRIVATE dlsm_stress dlsm_settings GTest::gmock
                        GTest::gtest_main)
  dlsm_compile_tests(stress_test)
  dlsm_discover_tests(stress_test 10)
  file(GLOB simulation_tests CONFIGURE_DEPENDS benchmarks/simulation/*_test.cc)
  add_executable(simulation_test ${simulation_tests} $<TARGET_OBJECTS:dlsm_stress>)
  target_link_libraries(simulation_test PRIVATE dlsm_simulation dlsm_settings GTest::gmock
                        GTest::gtest_main)
  dlsm_compile_tests(simulation_test)
  dlsm_discover_tests(simulation_test 10)
  set(DLSM_STRESS_SECONDS 60 CACHE STRING "How long each random test of whole databases lasts")
  math(EXPR stress_timeout "${DLSM_STRESS_SECONDS} + 340")
  # Nine seeds a second, each of which is a test of its own.
  math(EXPR simulated_seconds "${DLSM_STRESS_SECONDS} + 20")
  # Under ThreadSanitizer there is nothing to find: the hand-over of turns orders all threads.
  if(NOT DLSM_SANITIZE STREQUAL "thread")
    add_test(NAME db_simulate.seeds
             COMMAND db_simulate --seed=1 --seeds=100000 --seconds=${simulated_seconds})
    add_test(NAME db_simulate.repeats COMMAND db_simulate --seed=1 --seeds=40 --seconds=10 --twice)
    set_tests_properties(db_simulate.seeds db_simulate.repeats
                         PROPERTIES LABELS stress TIMEOUT ${stress_timeout} COST 100)
  endif()

  # script/stress for longer.
  add_test(NAME db_stress.random COMMAND db_stress --seed=1 --seconds=${DLSM_STRESS_SECONDS})
  add_test(NAME db_stress.crash COMMAND db_stress --seed=1001 --seconds=${DLSM_STRESS_SECONDS}
                                        --crash_seconds=2)
  add_test(NAME db_stress.repeats
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/benchmarks/stress/repeats_test.sh
                   $<TARGET_FILE:db_stress> $<TARGET_FILE:db_simulate> "${DLSM_SANITIZE}")
  # What takes longest begins first (COST): else the last minute of a run is one test's.
  set_tests_properties(db_stress.random db_stress.crash db_stress.repeats
                       PROPERTIES LABELS stress TIMEOUT ${stress_timeout} COST 100)

  add_test(NAME db_bench.smoke
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/benchmarks/smoke_test.py $<TARGET_FILE:db_bench>
                   $<TARGET_FILE:Server>)
  if(NOT DLSM_SANITIZE)
    add_test(NAME db_bench.original_commands
             COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/benchmarks/original_commands_test.py
                     ${CMAKE_CURRENT_SOURCE_DIR} $<TARGET_FILE:db_bench> $<TARGET_FILE:Server>
                     $<TARGET_FILE:dlsm_tool>)
    set_tests_properties(db_bench.original_commands PROPERTIES LABELS end_to_end TIMEOUT 120)
  endif()
  # It has one thread.
  if(TARGET structure_bench AND NOT DLSM_SANITIZE STREQUAL "thread")
    # Under a sanitizer each of them once: all take minutes there.
    set(structures .)
    if(DLSM_SANITIZE STREQUAL "address")
      set(structures value:100)
    endif()
    add_test(NAME structure_bench.smoke
             COMMAND structure_bench --benchmark_min_time=0.01 --benchmark_filter=${structures})
    # It reports a merge that fails, but ends well.
    set_tests_properties(structure_bench.smoke
                         PROPERTIES TIMEOUT 300 FAIL_REGULAR_EXPRESSION "ERROR OCCURRED" COST 100)
    # Of memory a sanitizer would take several times as much.
    add_test(NAME limits_bench.smoke
             COMMAND limits_bench --benchmark_min_time=0.01
                     --benchmark_filter=$<IF:$<BOOL:${DLSM_SANITIZE}>,Loopback|HandOver,-12640000>)
    set_tests_properties(limits_bench.smoke
                         PROPERTIES TIMEOUT 300 FAIL_REGULAR_EXPRESSION "ERROR OCCURRED")
  endif()
  add_test(NAME benchmarks.tls
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/benchmarks/tls_smoke_test.sh
                   $<TARGET_FILE:fabric_bench> $<TARGET_FILE:rpc_bench> $<TARGET_FILE:Server>)
  set_tests_properties(benchmarks.tls PROPERTIES TIMEOUT 120)
  # Its peers are not built for the sanitizers.
  set_tests_properties(db_bench.smoke PROPERTIES LABELS peers TIMEOUT 900 COST 100)
endif()
