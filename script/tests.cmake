# One test program for each floor, so that a test never sees what is above it; but none for port,
# whose headers are tested by what uses them. The folders are a list. Up to `cases` tests run in a
# process. Further arguments are properties of each.
function(dlsm_tests name folders cases)
  list(TRANSFORM folders APPEND /*_test.cc OUTPUT_VARIABLE tests)
  list(TRANSFORM folders APPEND /*_testing.cc OUTPUT_VARIABLE helpers)
  file(GLOB sources CONFIGURE_DEPENDS ${tests} ${helpers})
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE dlsm dlsm_settings GTest::gmock GTest::gtest_main)
  dlsm_compile_tests(${name})
  dlsm_discover_tests(${name} ${cases} ${ARGN})
endfunction()

# Objects of an application that has no run-time type information. UndefinedBehaviorSanitizer needs
# it to check virtual calls, the library's to such objects, too.
if(NOT DLSM_SANITIZE STREQUAL "address")
  set_source_files_properties(db/test/without_rtti_testing.cc db/leveldb/no_rtti_testing.cc
                              PROPERTIES COMPILE_OPTIONS -fno-rtti SKIP_PRECOMPILE_HEADERS ON)
endif()

dlsm_tests(util_test "${dlsm_util_rooms}" 20)
dlsm_tests(fabric_test "${dlsm_fabric_rooms}" 10)
dlsm_tests(rpc_test "${dlsm_rpc_rooms}" 10)
dlsm_tests(table_test table 20)
dlsm_tests(memory_node_test "${dlsm_node_rooms}" 10)
dlsm_tests(db_test "${dlsm_db_rooms};db/test" 8)
dlsm_tests(extras_test "${dlsm_extra_rooms}" 8)
# Every operation with every fault; by itself, so that its time is seen.
dlsm_tests(fault_test db/test/faults 4 LABELS faults)

# What programs tell Prometheus.
file(GLOB metrics_tests CONFIGURE_DEPENDS util/metrics/*_test.cc db/metrics/*_test.cc)
add_executable(metrics_test ${metrics_tests})
target_link_libraries(metrics_test PRIVATE dlsm_metrics dlsm dlsm_settings prometheus-cpp::pull
                      GTest::gmock GTest::gtest_main)
dlsm_compile_tests(metrics_test)
dlsm_discover_tests(metrics_test 10)

# The network face.
file(GLOB serve_tests CONFIGURE_DEPENDS db/serve/*_test.cc)
file(GLOB serve_helpers CONFIGURE_DEPENDS db/serve/*_testing.cc)
add_executable(serve_test ${serve_tests} ${serve_helpers} db/test/history_testing.cc
               db/test/just_in_time_search_testing.cc db/test/linearizability_checker_testing.cc)
target_link_libraries(serve_test PRIVATE dlsm_serve_parts dlsm_settings GTest::gmock GTest::gtest_main)
dlsm_compile_tests(serve_test)
dlsm_discover_tests(serve_test 10)
add_test(NAME serve.end_to_end COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/serve_test.py
                                       $<TARGET_FILE:dlsm_serve>)
set_tests_properties(serve.end_to_end PROPERTIES LABELS end_to_end TIMEOUT 300 COST 30)
# With 10,000 connections, as its figures in doc/serving.md are, it takes minutes. Its times mean nothing
# beside other tests, or with a sanitizer.
if(NOT DLSM_SANITIZE)
  add_test(NAME serve.many_clients
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/many-clients --connections=1000 --requests=30000
                   $<TARGET_FILE:dlsm_serve>)
  set_tests_properties(serve.many_clients PROPERTIES LABELS end_to_end TIMEOUT 300 RUN_SERIAL ON
                       SKIP_RETURN_CODE 77)
endif()
# Redis' own tests, where its sources can be had.
if(NOT DLSM_SANITIZE)
  add_test(NAME serve.redis COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/redis-tests
                                    $<TARGET_FILE_DIR:dlsm_serve>)
  set_tests_properties(serve.redis PROPERTIES LABELS end_to_end TIMEOUT 600 COST 40
                       SKIP_RETURN_CODE 77)
endif()

# Those of redis-py, where it can be had.
if(NOT DLSM_SANITIZE)
  add_test(NAME serve.redis_py COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/redis-py-tests
                                       $<TARGET_FILE_DIR:dlsm_serve>)
  set_tests_properties(serve.redis_py PROPERTIES LABELS end_to_end TIMEOUT 600 COST 40
                       SKIP_RETURN_CODE 77)
endif()

# The Python package, where nanobind can be had. It links the static library.
if(NOT DLSM_SANITIZE AND NOT BUILD_SHARED_LIBS)
  add_test(NAME python COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/python-test
                               $<TARGET_FILE_DIR:Server>)
  add_test(NAME python.wheel COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/python-wheel
                                     $<TARGET_FILE_DIR:Server>)
  set_tests_properties(python python.wheel PROPERTIES LABELS end_to_end TIMEOUT 300 COST 40
                       RESOURCE_LOCK python SKIP_RETURN_CODE 77)
endif()

# LevelDB's interface: its classes here, programs that were linked to LevelDB in a script.
file(GLOB leveldb_tests CONFIGURE_DEPENDS db/leveldb/*_test.cc db/leveldb/*_testing.cc)
add_executable(leveldb_test ${leveldb_tests} $<TARGET_OBJECTS:dlsm_leveldb>)
target_link_libraries(leveldb_test PRIVATE dlsm dlsm_settings GTest::gmock GTest::gtest_main)
dlsm_compile_tests(leveldb_test)
dlsm_discover_tests(leveldb_test 10)

# The tool: its parts are tested by themselves, and the command as a whole with real data.
file(GLOB tool_tests CONFIGURE_DEPENDS script/tool/*_test.cc)
set(tool_parts ${tool_sources})
list(FILTER tool_parts EXCLUDE REGEX "_main\\.cc$")
add_executable(tool_test ${tool_tests} ${tool_parts})
target_link_libraries(tool_test PRIVATE dlsm dlsm_settings GTest::gmock GTest::gtest_main TBB::tbb)
dlsm_compile_tests(tool_test)
dlsm_discover_tests(tool_test 20)
add_test(NAME tool.end_to_end
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/tool/tool_test.sh
                 $<TARGET_FILE:dlsm_tool> $<TARGET_FILE:Server>)
set_tests_properties(tool.end_to_end PROPERTIES LABELS end_to_end TIMEOUT 1200 COST 100
                     SKIP_RETURN_CODE 77)

# The verbs fabric, in a virtual machine with a software RDMA device. With AddressSanitizer the
# short tests only: the machine may have to be emulated, which is slow enough. Two machines at a
# time, for one alone mostly leaves a processor idle: MACHINE is the first or the second; each has
# 3 GB and as many processors as there are, up to four.
function(dlsm_vm_test name machine)
  add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/softroce/test-in-vm 600 ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS softroce TIMEOUT 660 SKIP_RETURN_CODE 77
                       RESOURCE_LOCK virtual_machine_${machine})
endfunction()
if(DLSM_SANITIZE STREQUAL "address")
  # Set-up, errors, revocation, the device's events; not the long random transfers.
  dlsm_vm_test(softroce.address 1 bash -c "'$<TARGET_FILE:fabric_test>' --gtest_brief=1 \
--gtest_filter='VerbsTest.*:VerbsEventsTest.*:*VerbsAddress*:-*CutsTransfers*' && \
'$<TARGET_FILE:rpc_test>' --gtest_brief=1 --gtest_filter='*Answers/verbs:*Answers/ring'")
elseif(NOT DLSM_SANITIZE)
  # librdmacm keeps the devices open until the process ends: who wants to take one away must be
  # another process than that of the tests of the connection manager.
  set(removal VerbsFaultTest.TheDeviceIsTakenAway)
  dlsm_vm_test(softroce.fabric 2 $<TARGET_FILE:fabric_test>
               --gtest_filter=*verbs*:*Verbs*-${removal})
  dlsm_vm_test(softroce.removal 2 $<TARGET_FILE:fabric_test> --gtest_filter=${removal})
  dlsm_vm_test(softroce.rpc 2 $<TARGET_FILE:rpc_test> --gtest_filter=*/verbs:*/ring:Verbs*)
  dlsm_vm_test(softroce.memory_node 2 $<TARGET_FILE:memory_node_test>
               --gtest_filter=*/verbs:*Verbs*)
  if(TARGET db_bench)
    dlsm_vm_test(softroce.db 1 ${CMAKE_CURRENT_SOURCE_DIR}/script/softroce/db-test
                 $<TARGET_FILE:Server> $<TARGET_FILE:db_bench> $<TARGET_FILE:db_test>)
    dlsm_vm_test(softroce.stress 2 $<TARGET_FILE:db_stress> --fabric=verbs --seed=1 --seconds=20
                 --database_seconds=5 --operations=200 --threads=2 --nodes=2 --huge_value=0
                 --operation_timeout_ms=60000)
    set(cm_test ${CMAKE_CURRENT_SOURCE_DIR}/script/softroce/cm-test
        $<TARGET_FILE:fabric_test> $<TARGET_FILE:Server> $<TARGET_FILE:db_bench>)
    dlsm_vm_test(softroce.cm 2 ${cm_test})
  endif()
  # It brings two machines of its own, which leave no processor idle; and how long calls may take
  # while the network is broken is part of what it tests: so nothing runs beside it. Every fault,
  # each load with some of them: all of them with each other, which two-hosts-test does by itself,
  # take six minutes where something else runs.
  string(CONCAT two_hosts
         "*TwoHosts*.TheServerIsKilled/Fill:*TwoHosts*.TheServerIsKilled/MergeThere:"
         "*TwoHosts*.TheServerIsKilledAndStartedAgain/Read:*TwoHosts*.ShortSilence/MergeHere:"
         "*TwoHosts*.LongCut/Fill:*TwoHosts*.LongCut/MergeThere:*TwoHostsWrites*/Fill:"
         "*TwoHostsLease*:*TwoHostsStale*")
  add_test(NAME softroce.two_hosts
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/softroce/two-hosts-test
                   $<TARGET_FILE:Server> $<TARGET_FILE:db_test> "${two_hosts}")
  set_tests_properties(softroce.two_hosts PROPERTIES LABELS softroce TIMEOUT 600
                       SKIP_RETURN_CODE 77 RUN_SERIAL ON)
endif()

# Any kind of build has a Server.
add_test(NAME with_server COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/with_server_test.py
                                  $<TARGET_FILE:Server>)
set_tests_properties(with_server PROPERTIES LABELS end_to_end TIMEOUT 120 COST 100)

# Clusters: in network namespaces where the machine allows them, and behind a stand-in for ssh.
if(TARGET db_bench AND NOT DLSM_SANITIZE)
  foreach(kind namespaces ssh)
    add_test(NAME cluster.${kind}
             COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/cluster_${kind}_test.py
                     $<TARGET_FILE_DIR:db_bench>)
    set_tests_properties(cluster.${kind} PROPERTIES LABELS end_to_end TIMEOUT 120
                         SKIP_RETURN_CODE 77)
  endforeach()
endif()

# A real Prometheus scrapes all programs, where it is installed.
if(TARGET db_bench AND NOT DLSM_SANITIZE)
  add_test(NAME metrics.prometheus COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/metrics_test.py
                                           $<TARGET_FILE_DIR:db_bench>)
  set_tests_properties(metrics.prometheus PROPERTIES LABELS end_to_end TIMEOUT 120
                       SKIP_RETURN_CODE 77)
endif()

# Applications and Servers are killed until sixty kills are survived, over each fabric.
if(TARGET db_stress AND NOT DLSM_SANITIZE)
  add_test(NAME stress.crash
           COMMAND ${CMAKE_COMMAND} -E env CRASH_TEST_PROGRAMS=$<TARGET_FILE_DIR:db_stress>
                   ${CMAKE_CURRENT_SOURCE_DIR}/script/crash-test --minutes=6 --kills=60)
  set_tests_properties(stress.crash PROPERTIES LABELS end_to_end TIMEOUT 600 COST 200)
endif()

# The comparison with other stores, as far as they are installed.
if(TARGET db_bench AND NOT DLSM_SANITIZE)
  add_test(NAME compare.quick COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/compare_test.py quick
                                      $<TARGET_FILE_DIR:db_bench>)
  set_tests_properties(compare.quick PROPERTIES LABELS peers TIMEOUT 300)
endif()

# Packages, in a bare Debian. Only if asked for (script/test --only=packages): it takes some minutes, most of them
# for a second build and for what apt fetches.
if(NOT DLSM_SANITIZE)
  add_test(NAME packages COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/package-test --build)
  set_tests_properties(packages PROPERTIES LABELS packages TIMEOUT 1800 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
endif()

# Programs that were written for LevelDB, on dLSM's libleveldb: its binary interface, and the tests of
# bindings, where they can be had. Those of classic-level, and all of them on memory nodes, are run by
# the script's command line: see doc/leveldb.md.
if(TARGET leveldb_compat)
  add_test(NAME leveldb.abi COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/leveldb_suites/abi_check
                                    ${CMAKE_CURRENT_BINARY_DIR})
  foreach(suite plyvel levigo)
    add_test(NAME leveldb.${suite} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/leveldb-suites ${suite}
                                           ${CMAKE_CURRENT_BINARY_DIR})
  endforeach()
  set_tests_properties(leveldb.abi leveldb.plyvel leveldb.levigo
                       PROPERTIES LABELS peers TIMEOUT 300 COST 40 SKIP_RETURN_CODE 77)
endif()

# Checks that need no compiler.
function(dlsm_static_check name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS static TIMEOUT 300)
endfunction()
dlsm_static_check(layers script/check-layers)
dlsm_static_check(layers.self_test script/check-layers --self-test)
dlsm_static_check(includes script/check-includes)
dlsm_static_check(includes.self_test script/check-includes --self-test)
dlsm_static_check(descriptors script/check-descriptors)
dlsm_static_check(descriptors.self_test script/check-descriptors --self-test)
dlsm_static_check(tree script/check-tree)
dlsm_static_check(tree.self_test script/check-tree --self-test)
dlsm_static_check(version script/check-version)
dlsm_static_check(version.self_test script/check-version --self-test)
dlsm_static_check(format script/check-format)
dlsm_static_check(shell script/check-shell)
dlsm_static_check(cluster.arguments script/cluster_test.py)
dlsm_static_check(bench.arguments script/bench_test.py)
dlsm_static_check(stress.arguments script/stress_test.py)
dlsm_static_check(compare.figures script/compare_test.py figures)
dlsm_static_check(leveldb.outcomes script/leveldb_suites_test.py)

# Fuzz targets: each *_fuzz.cc is a program. All of the library is built with coverage then, which
# costs its tests little, so that no build is needed for the fuzzer alone; the tests are not.
option(DLSM_FUZZ "Build the fuzz targets (clang only)" OFF)
set(DLSM_FUZZ_SECONDS 6 CACHE STRING "How long a test of a fuzz target lasts")
if(DLSM_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "DLSM_FUZZ needs clang: add -DCMAKE_CXX_COMPILER=clang++")
  endif()
  target_compile_options(dlsm_settings INTERFACE
                         $<$<NOT:$<BOOL:$<TARGET_PROPERTY:DLSM_TEST>>>:-fsanitize=fuzzer-no-link>)
  foreach(folder ${dlsm_util_rooms} ${dlsm_fabric_rooms} ${dlsm_rpc_rooms} table ${dlsm_node_rooms}
                 ${dlsm_db_rooms} ${dlsm_extra_rooms} db/test db/serve db/leveldb script/tool)
    file(GLOB fuzz_sources CONFIGURE_DEPENDS ${folder}/*_fuzz.cc)
    foreach(source ${fuzz_sources})
      get_filename_component(target ${source} NAME_WE)
      string(REGEX REPLACE "_fuzz$" "" subject ${target})
      add_executable(${target} ${source} util/fuzz_totals_main.cc)
      if(folder STREQUAL "script/tool")
        target_sources(${target} PRIVATE ${tool_parts})
        target_link_libraries(${target} PRIVATE TBB::tbb)
      endif()
      if(folder STREQUAL "db/serve")
        target_sources(${target} PRIVATE ${serve_helpers})
        target_link_libraries(${target} PRIVATE dlsm_serve_parts)
      endif()
      if(folder STREQUAL "db/leveldb")
        target_sources(${target} PRIVATE $<TARGET_OBJECTS:dlsm_leveldb>)
      endif()
      target_link_libraries(${target} PRIVATE dlsm dlsm_settings gflags)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer -Wl,--wrap=LLVMFuzzerTestOneInput)
      set(corpus ${CMAKE_CURRENT_BINARY_DIR}/fuzz/${target})
      file(MAKE_DIRECTORY ${corpus})
      set(seeds ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/corpus/${subject})
      if(NOT IS_DIRECTORY ${seeds})
        set(seeds "")
      endif()
      # Of a whole database's features, to weigh them takes twice as long as to run it.
      set(schedule "")
      if(subject STREQUAL "db_map")
        set(schedule -entropic=0)
      endif()
      add_test(NAME fuzz.${subject}
               COMMAND ${target} -max_total_time=${DLSM_FUZZ_SECONDS} -seed=1 -timeout=10
                       -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 ${schedule}
                       -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/fuzz/ ${corpus} ${seeds})
      math(EXPR fuzz_timeout "${DLSM_FUZZ_SECONDS} + 120")
      set_tests_properties(fuzz.${subject} PROPERTIES LABELS fuzz TIMEOUT ${fuzz_timeout})
    endforeach()
  endforeach()
endif()
