package cli

const resultsHelp = `What a run came to, for machines

One result is made of each run and rendered in every form that is asked for, also when the run fails. On cargo's verbs the flags begin with --gpu-,
on ours (features, doctor, stale, prove, audit) they do not.

--json[=FILE]    one envelope: {"schema":"gpubuild/<verb>/1","ok":…,"findings":[{id,severity,message,path,line,fix,evidence}],"result":{…}};
                 result has row, at, seconds, exit_code, features, set, stale, cleaned, programs, checks
--sarif FILE     the findings as SARIF 2.1.0, paths relative to %SRCROOT%; upload one file a row, its category is in automationDetails.id
--junit FILE     one suite, a case a check: reach, toolchain, stale, build, and each program's proof. A proof that was not made for want of a
                 device is skipped, unless a proof was required
--receipt FILE   each program with its hash, its evidence and its verdict, and the result; gpubuild receipt verify

--message-format=json: among cargo's lines, each on a line of its own:
  gpubuild-reach      {asked, via, stops, roots}            once the features are known
  gpubuild-finding    {id, severity, message, …}
  gpubuild-toolchain  {toolkit, root, compiler, cudnn, arch, driver, devices}
  gpubuild-stale      {stale, cleaned}
  gpubuild-program    {name, path, code, images, proof}     at the end, each program
  gpubuild-finished   {ok, exit_code, row, checks}          the last line

GITHUB_ACTIONS=true: findings are annotations on stderr, at most ten of a kind; all of them stand in the step's summary (GITHUB_STEP_SUMMARY).
GITHUB_ACTIONS= gpubuild … does without.

GPUBUILD_ROW names the row of a matrix. gpubuild report FILES… --html PAGE joins the files of all rows.
`
