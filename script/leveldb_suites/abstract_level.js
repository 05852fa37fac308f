// Runs the tests of abstract-level with classic-level as its implementation, or lists them.
//
//   node abstract_level.js FOLDER                        prints the names of all tests
//   node abstract_level.js FOLDER OUTCOMES LEFT_OUT      runs those that are not in the file LEFT_OUT, and writes to
//                                                        the file OUTCOMES what becomes of each
//
// FOLDER has node_modules. The suite has some names more than once: the second test of a name is "NAME #2".
'use strict'

const fs = require('fs')
const os = require('os')
const path = require('path')
const [folder, outcomes, leftOutFile] = process.argv.slice(2)
const from = require('module').createRequire(path.resolve(folder) + '/')
const { ClassicLevel } = from('classic-level')
const suite = from('abstract-level/test')
const tape = from('tape')

const leftOut = new Set(outcomes ? fs.readFileSync(leftOutFile, 'utf8').split('\n') : [])
const seen = new Map()

function tell (line) {
  fs.appendFileSync(outcomes, line + '\n')
}

function uniqueName (name) {
  const line = name.replace(/\s+/g, ' ')
  const count = (seen.get(line) || 0) + 1
  seen.set(line, count)
  return count === 1 ? line : `${line} #${count}`
}

// Calls `failed` when an assertion of the test, or of a test within it, does not hold.
function watch (t, failed) {
  t.on('result', (result) => { if (result.ok === false) failed() })
  t.on('test', (inner) => watch(inner, failed))
}

function test (name, ...rest) {
  const body = rest.pop()
  const unique = uniqueName(name)
  if (!outcomes) {
    console.log(unique)
    return
  }
  if (leftOut.has(unique)) return
  tape(name, ...rest, function (t) {
    let outcome = 'passed'
    tell(`started ${unique}`)
    watch(t, () => { outcome = 'failed' })
    t.on('end', () => tell(`${outcome} ${unique}`))
    return body(t)
  })
}

test.skip = (name) => {
  const unique = uniqueName(name)
  if (!outcomes) console.log(unique)
  else tell(`skipped ${unique}`)
}

suite({
  test,
  factory (options) {
    return new ClassicLevel(fs.mkdtempSync(path.join(os.tmpdir(), 'classic-level-')), options)
  }
})
if (!outcomes) process.exit(0)
